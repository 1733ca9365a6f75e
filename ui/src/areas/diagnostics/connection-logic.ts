import type { Connection } from '../../api/types'
import type { ListSearch } from '../../kit/list/list-logic'

export const connectionStates = [
  'established',
  'syn_sent',
  'syn_recv',
  'fin_wait',
  'close_wait',
  'last_ack',
  'time_wait',
  'close',
  'unreplied',
] as const

export const connectionProtocols = ['tcp', 'udp', 'icmp', 'icmpv6'] as const

const filters = ['source', 'destination', 'port', 'protocol', 'state'] as const

/** The filters in the address bar, as the API takes them. */
export function connectionQuery(search: ListSearch): Record<string, string> {
  return Object.fromEntries([...filters, 'after'].flatMap((name) => (search[name] ? [[name, search[name]]] : [])))
}

/** Whether any filter is set. */
export const isFiltered = (search: ListSearch) => filters.some((name) => search[name])

/** An address, with its port if there is one. */
export function end(address: string, port: number | null | undefined): string {
  if (port === null || port === undefined) return address
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

/** What NAT turns each end into; null if unchanged. */
export function rewritten(c: Connection): { source: string | null; destination: string | null } | null {
  if (c.nat === '') return null
  return {
    source: c.nat === 'destination' ? null : end(c.seen_source, c.seen_source_port),
    destination: c.nat === 'source' ? null : end(c.seen_destination, c.seen_destination_port),
  }
}

/** The name of a connection in a sentence. */
export const nameOf = (c: Connection) =>
  `${c.protocol} ${end(c.source, c.source_port)} → ${end(c.destination, c.destination_port)}`
