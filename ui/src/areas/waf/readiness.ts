import type { WafForecast, WafSummary } from '../../api/types'

/** Whether a domain can switch to blocking: nothing would have been refused, for long enough to be meaningful. */
export type Readiness = 'ready' | 'young' | 'noisy' | 'unknown'

const day = 86_400_000
const week = 7 * day

const age = (since: string | null, now: number) => (since ? now - Date.parse(since) : 0)

/** Whole days since a domain's settings changed. */
export const daysSince = (since: string | null, now: number) => Math.floor(age(since, now) / day)

export function readinessOf(forecast: WafForecast, agentUp: boolean, now: number): Readiness {
  if (!forecast.quiet) return 'noisy'
  // While the agent is down it finds nothing, which says nothing.
  if (!agentUp) return 'unknown'
  return age(forecast.since, now) >= week ? 'ready' : 'young'
}

/** The gateway's summary lists this many domains: those with the most matches. */
const named = 10

/**
 * The number of matching requests of a domain. For one that is not listed, the smallest listed number is an upper
 * bound.
 */
export function matchedOf(domains: WafSummary['domains'], id: string): { requests: number; exact: boolean } {
  const found = domains.find(({ domain_id }) => domain_id === id)
  if (found) return { requests: found.requests, exact: true }
  if (domains.length < named) return { requests: 0, exact: true }
  return { requests: Math.min(...domains.map(({ requests }) => requests)), exact: false }
}
