import type { WafAlert } from '../../api/types'
import type { ListSearch } from '../../kit/list/list-logic'

export const alertActions: WafAlert['action'][] = ['blocked', 'detected', 'unavailable']

/** How many records an answer has. */
export const pageSize = 200

const plain = ['domain_id', 'rule_id', 'client', 'action', 'q', 'before'] as const
const times = ['since', 'until'] as const

/** The filters in the address bar, as the API takes them. Times are local. */
export function alertQuery(search: ListSearch): Record<string, string> {
  const moments = times.flatMap((name) => {
    const at = new Date(search[name] ?? '')
    return Number.isNaN(at.getTime()) ? [] : [[name, at.toISOString()]]
  })
  return Object.fromEntries([...plain.flatMap((name) => (search[name] ? [[name, search[name]]] : [])), ...moments])
}

/** Whether any filter is set. */
export const isFiltered = (search: ListSearch) => Object.keys(alertQuery({ ...search, before: undefined })).length > 0

const gravest = ['emergency', 'alert', 'critical', 'error', 'warning', 'notice', 'info', 'debug']
const rank = ({ severity }: WafAlert) => {
  const at = gravest.indexOf(severity.toLowerCase())
  return at < 0 ? gravest.length : at
}

/**
 * Rules that inspect requests, and can be excluded. The others protect the engine itself, or add up what these found.
 */
export const looksAtRequests = (rule: number) => (rule >= 911_000 && rule < 949_000) || (rule > 0 && rule < 100_000)

/** Rules that only add up what others found. */
export const addsUp = (rule: number) => rule >= 949_000 && rule < 990_000

/** The URL of a request. In HTTP/2 the URI already has the host. */
export function addressOf({ domain, uri }: Pick<WafAlert, 'domain' | 'uri'>): string {
  return uri.startsWith('/') ? domain + uri : uri.replace(/^https?:\/\//, '') || domain
}

/** One request with its records. */
export interface AlertRow {
  /** The id of the lead record. */
  id: string
  lead: WafAlert
  records: WafAlert[]
}

/** The record that says most about a request: the most severe rule that found something. */
export function leadOf(records: readonly WafAlert[]): WafAlert {
  const found = records.filter(({ rule_id }) => looksAtRequests(rule_id))
  const all = found.length > 0 ? found : records
  return all.reduce((best, record) => (rank(record) < rank(best) ? record : best))
}

/**
 * Groups records by request, in the order of the records. A record without a reference number is a group of its own.
 */
export function requestsOf(records: readonly WafAlert[]): AlertRow[] {
  const groups = new Map<string, WafAlert[]>()
  for (const record of records) {
    const key = record.request_id || record.id
    const group = groups.get(key)
    if (group) group.push(record)
    else groups.set(key, [record])
  }
  return [...groups.values()].map((group) => {
    const lead = leadOf(group)
    return { id: lead.id, lead, records: group }
  })
}

const mask = '[masked]'

/** Splits a text, so that masked parts can be highlighted. */
export function maskedParts(text: string): { text: string; masked: boolean; at: number }[] {
  let at = 0
  return text
    .split(/(\[masked\])/)
    .map((part) => {
      const one = { text: part, masked: part === mask, at }
      at += part.length
      return one
    })
    .filter((part) => part.text !== '')
}
