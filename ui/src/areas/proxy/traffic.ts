import { queryOptions } from '@tanstack/react-query'
import { http, unwrap } from '../../api/client'
import type { ProxyHistory } from '../../api/types'

export const historyQuery = queryOptions({
  queryKey: ['proxy', 'stats', 'history'],
  queryFn: () => unwrap(http.GET('/proxy/stats/history')),
  refetchInterval: 10_000,
})

export interface Lines {
  times: number[]
  requests: (number | null)[]
  errors: (number | null)[]
}

/** The history as the chart takes it. Where a step is missing the line breaks: nobody knows what was there. */
export function linesOf({ points, step_seconds }: Pick<ProxyHistory, 'points' | 'step_seconds'>): Lines {
  const lines: Lines = { times: [], requests: [], errors: [] }
  for (const { at, requests, errors } of points) {
    const time = Date.parse(at) / 1000
    const last = lines.times.at(-1)
    if (last !== undefined && time - last > 1.5 * step_seconds) {
      lines.times.push(last + step_seconds)
      lines.requests.push(null)
      lines.errors.push(null)
    }
    lines.times.push(time)
    lines.requests.push(requests)
    lines.errors.push(errors)
  }
  return lines
}

const shortest = 300
const longest = 3600

/** How many seconds the chart shows: it widens as it fills, so that a proxy that just started is not an empty frame. */
export function windowOf(times: readonly number[]): number {
  return Math.min(Math.max((times.at(-1) ?? 0) - (times[0] ?? 0), shortest), longest)
}

/** Requests a second: with a figure after the point while they are few. */
export function rate(value: number): string {
  if (value === 0) return '0'
  return value >= 10 ? Math.round(value).toLocaleString('en') : value.toFixed(1)
}
