import type { WafAlert } from '../../api/types'
import type { ListSearch } from '../../kit/list/list-logic'

export const alertActions: WafAlert['action'][] = ['blocked', 'detected', 'unavailable']

/** How many records one answer has. */
export const pageSize = 200

const plain = ['domain_id', 'rule_id', 'client', 'action', 'q', 'before'] as const
const times = ['since', 'until'] as const

/** The filters of the address as the gateway takes them. A time without a zone is the operator's own. */
export function alertQuery(search: ListSearch): Record<string, string> {
  const moments = times.flatMap((name) => {
    const at = new Date(search[name] ?? '')
    return Number.isNaN(at.getTime()) ? [] : [[name, at.toISOString()]]
  })
  return Object.fromEntries([...plain.flatMap((name) => (search[name] ? [[name, search[name]]] : [])), ...moments])
}

/** Whether the list shows less than everything. */
export const isFiltered = (search: ListSearch) => Object.keys(alertQuery({ ...search, before: undefined })).length > 0

const gravest = ['emergency', 'alert', 'critical', 'error', 'warning', 'notice', 'info', 'debug']
const rank = ({ severity }: WafAlert) => {
  const at = gravest.indexOf(severity.toLowerCase())
  return at < 0 ? gravest.length : at
}

/** Rules that look at a request, and can be left out. The others guard the engine, or add up what these have found. */
export const looksAtRequests = (rule: number) => (rule >= 911_000 && rule < 949_000) || (rule > 0 && rule < 100_000)

/** Rules that find nothing of their own: they add up what the others have found. */
export const addsUp = (rule: number) => rule >= 949_000 && rule < 990_000

/** Where a request went. In HTTP/2 it names the host itself. */
export function addressOf({ domain, uri }: Pick<WafAlert, 'domain' | 'uri'>): string {
  return uri.startsWith('/') ? domain + uri : uri.replace(/^https?:\/\//, '') || domain
}

/** One request, with the records about it. */
export interface AlertRow {
  /** Of the record that says most. */
  id: string
  lead: WafAlert
  records: WafAlert[]
}

/** The record of a request that says most about it: the gravest rule that found something. */
export function leadOf(records: readonly WafAlert[]): WafAlert {
  const found = records.filter(({ rule_id }) => looksAtRequests(rule_id))
  const all = found.length > 0 ? found : records
  return all.reduce((best, record) => (rank(record) < rank(best) ? record : best))
}

/** The requests that records are about, in the order of the records. What has no reference number stands alone. */
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

/** A text in parts, so that those can be marked that stand for a secret. */
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
