import type { WafForecast, WafSummary } from '../../api/types'

/** Whether a domain may be switched to blocking: it was quiet, and long enough for that to mean something. */
export type Readiness = 'ready' | 'young' | 'noisy' | 'unknown'

const day = 86_400_000
const week = 7 * day

const age = (since: string | null, now: number) => (since ? now - Date.parse(since) : 0)

/** Whole days since a domain got its settings. */
export const daysSince = (since: string | null, now: number) => Math.floor(age(since, now) / day)

export function readinessOf(forecast: WafForecast, agentUp: boolean, now: number): Readiness {
  if (!forecast.quiet) return 'noisy'
  // An agent that is away finds nothing, and nothing is then no news.
  if (!agentUp) return 'unknown'
  return age(forecast.since, now) >= week ? 'ready' : 'young'
}

/** The gateway names so many domains in its summary, those with the most requests. */
const named = 10

/** How many requests of a domain matched. Of a domain that is not named, at most as many as of the last one that is. */
export function matchedOf(domains: WafSummary['domains'], id: string): { requests: number; exact: boolean } {
  const found = domains.find(({ domain_id }) => domain_id === id)
  if (found) return { requests: found.requests, exact: true }
  if (domains.length < named) return { requests: 0, exact: true }
  return { requests: Math.min(...domains.map(({ requests }) => requests)), exact: false }
}
