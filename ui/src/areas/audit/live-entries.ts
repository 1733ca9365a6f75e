import type { AuditEntry } from '../../api/types'
import type { ListSearch } from '../../kit/list/list-logic'

export const filters = ['actor', 'action', 'subject'] as const

/** The same rule as the server's search: each given text occurs, in whatever case; the times enclose. */
function matches(entry: AuditEntry, search: ListSearch): boolean {
  const at = Date.parse(entry.created_at)
  return (
    filters.every((name) => entry[name].toLowerCase().includes((search[name] ?? '').toLowerCase())) &&
    (!search.from || at >= Date.parse(search.from)) &&
    (!search.to || at <= Date.parse(search.to))
  )
}

/** What the stream brought since the search was answered, newest first: no need to search again for it. */
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

/** The id right after this one. Later entries have greater ids, so the entry itself is the first one before it. */
export function justAfter(id: string): string {
  const digits = (BigInt(`0x${id.replaceAll('-', '')}`) + 1n).toString(16).padStart(32, '0')
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
