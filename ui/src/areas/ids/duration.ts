const units = { s: 1, m: 60, h: 3600, d: 86_400 } as const

/** A duration in CrowdSec's format, such as 4h, in seconds; null if it is not one. */
export function secondsOf(text: string): number | null {
  const [, amount, unit] = /^(\d+)([smhd])$/.exec(text) ?? []
  return amount ? Number(amount) * units[unit as keyof typeof units] : null
}

/** Seconds in the largest unit that divides them: 4h. */
export function durationOf(seconds: number): string {
  const fitting = Object.entries(units).filter(([, size]) => seconds % size === 0)
  const [unit, size] = fitting.at(-1) ?? ['s', 1]
  return `${seconds / size}${unit}`
}
