import type { AuditEntry } from '../../api/types'
import type { ListSearch } from '../../kit/list/list-logic'

export const filters = ['actor', 'action', 'subject'] as const

/** Same rule as the server's search: each text occurs, ignoring case, and the times are inclusive. */
function matches(entry: AuditEntry, search: ListSearch): boolean {
  const at = Date.parse(entry.created_at)
  return (
    filters.every((name) => entry[name].toLowerCase().includes((search[name] ?? '').toLowerCase())) &&
    (!search.from || at >= Date.parse(search.from)) &&
    (!search.to || at <= Date.parse(search.to))
  )
}

/** Matching entries that the stream delivered after the search, newest first, to avoid searching again. */
export function newerEntries(
  live: readonly AuditEntry[],
  found: readonly AuditEntry[],
  search: ListSearch,
): AuditEntry[] {
  const known = new Set(found.map((entry) => entry.id))
  const newest = found[0] ? Date.parse(found[0].created_at) : 0
  return live
    .filter((entry) => !known.has(entry.id) && Date.parse(entry.created_at) >= newest && matches(entry, search))
    .reverse()
}

/** The next higher id. Ids grow with time, so this makes the entry itself the first one before it. */
export function justAfter(id: string): string {
  const digits = (BigInt(`0x${id.replaceAll('-', '')}`) + 1n).toString(16).padStart(32, '0')
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
