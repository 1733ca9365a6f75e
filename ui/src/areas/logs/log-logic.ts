import { Stream } from '../../api/stream'
import type { LogEntry } from '../../api/types'
import type { ListSearch } from '../../kit/list/list-logic'
import { localInput } from '../../kit/text/format'

export const levels = ['error', 'warn', 'info'] as const

/** The only source whose entries have a domain. */
export const requestsOfDomains = 'reverse-proxy-access'

/** How many entries an answer has. */
export const pageSize = 500

const plain = ['sources', 'level', 'text', 'domain'] as const
const times = ['since', 'until'] as const

const spans = { hour: 3_600_000, day: 86_400_000, week: 7 * 86_400_000 } as const
export const ranges = Object.keys(spans) as (keyof typeof spans)[]

/** The filters in the address bar, as the API takes them, without the times. */
export function streamQuery(search: ListSearch): Record<string, string> {
  return Object.fromEntries(plain.flatMap((name) => (search[name] ? [[name, search[name]]] : [])))
}

/** The filters in the address bar, as the API takes them. Times are local. */
export function logQuery(search: ListSearch): Record<string, string> {
  const moments = times.flatMap((name) => {
    const at = new Date(search[name] ?? '')
    return Number.isNaN(at.getTime()) ? [] : [[name, at.toISOString()]]
  })
  return { ...streamQuery(search), ...Object.fromEntries(moments) }
}

/** Whether any filter is set. */
export const isFiltered = (search: ListSearch) => Object.keys(logQuery(search)).length > 0

/** The filtered entries, live. Each filter gets a stream of its own. */
export function logStream(query: Record<string, string>): Stream<LogEntry> {
  const text = new URLSearchParams({ ...query, limit: '200' }).toString()
  return new Stream<LogEntry>(`/logs/live?${text}`, { key: ({ id }) => id, limit: 2000 })
}

/** The search parameters for a period until now. */
export const rangeSearch = (range: keyof typeof spans, now: number): ListSearch => ({
  since: localInput(now - spans[range]),
  until: undefined,
})

/** The search parameters for the minute before and after an entry, from every source. */
export const aroundSearch = ({ time }: Pick<LogEntry, 'time'>): ListSearch => ({
  since: localInput(Date.parse(time) - 60_000),
  until: localInput(Date.parse(time) + 60_000),
})

export interface Bar {
  from: number
  to: number
  all: number
  errors: number
  warnings: number
}

const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 604_800]
const most = 60

/** Counts entries by equal periods with round bounds; at most 60 bars. */
export function barsOf(entries: readonly Pick<LogEntry, 'time' | 'level'>[]): Bar[] {
  const moments = entries.map(({ time }) => Date.parse(time))
  if (moments.length < 2) return []
  let first = Number.POSITIVE_INFINITY
  let last = Number.NEGATIVE_INFINITY
  for (const at of moments) {
    first = Math.min(first, at)
    last = Math.max(last, at)
  }
  const fits = (seconds: number) => Math.floor(last / 1000 / seconds) - Math.floor(first / 1000 / seconds) < most
  let step = steps.find(fits) ?? 604_800
  while (!fits(step)) step *= 2
  const width = step * 1000
  const begin = Math.floor(first / width) * width
  const bars: Bar[] = []
  for (let from = begin; from <= last; from += width) {
    bars.push({ from, to: from + width, all: 0, errors: 0, warnings: 0 })
  }
  entries.forEach(({ level }, index) => {
    const bar = bars[Math.floor(((moments[index] as number) - begin) / width)] as Bar
    bar.all++
    if (level === 'error') bar.errors++
    if (level === 'warn') bar.warnings++
  })
  return bars
}

/** The log sources of a component. */
const componentSources: Record<string, string> = {
  'reverse-proxy': 'reverse-proxy,reverse-proxy-access',
  'forward-proxy': 'forward-proxy,forward-proxy-access',
  dns: 'dns',
  ntp: 'ntp',
  dhcp: 'dhcp',
  radius: 'radius',
  tunnel: 'tunnels,api',
  waf: 'waf',
  ids: 'ids',
  'ids-firewall-bouncer': 'ids',
  network: 'api,helper',
  'packet-filter': 'api,helper',
}

export const sourcesOf = (component: string): string => componentSources[component] ?? 'api'
