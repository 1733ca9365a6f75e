/** The lifetimes of a new token, in days. */
export const lifetimes = { month: 30, quarter: 90, year: 365, endless: null }

export interface NewToken {
  name: string
  role: 'admin' | 'viewer'
  lifetime: keyof typeof lifetimes
}

export function expiryOf(lifetime: keyof typeof lifetimes, now: number): string | null {
  const days = lifetimes[lifetime]
  return days === null ? null : new Date(now + days * 86_400_000).toISOString()
}
