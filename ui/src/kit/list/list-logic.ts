import type { Column } from './DataTable'

/** The part of the address that belongs to a list: ?q=…&sort=-name&role=admin. */
export type ListSearch = Record<string, string | undefined>

/** Keeps what a list understands of an address: texts. A number counts as its text. */
export function listSearch(search: Record<string, unknown>): ListSearch {
  return Object.fromEntries(
    Object.entries(search)
      .filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value) && value !== '')
      .map(([key, value]) => [key, String(value)]),
  )
}

export interface Filter<T> {
  key: string
  label: string
  options: { value: string; label: string }[]
  /** What a row has of it: one value, or several. */
  of: (row: T) => string | readonly string[]
  /** Many options are a select, not chips. */
  many?: boolean
}

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' })

function compare(a: unknown, b: unknown): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b
  return collator.compare(String(a ?? ''), String(b ?? ''))
}

interface Selection<T> {
  columns: Column<T>[]
  filters: Filter<T>[]
  text: (row: T) => string
  search: ListSearch
}

/** The rows that match search and filters, sorted. Without a chosen sort the server's order stands. */
export function selectRows<T>(rows: readonly T[], { columns, filters, text, search }: Selection<T>): T[] {
  const words = (search.q ?? '').toLowerCase().split(/\s+/).filter(Boolean)
  const chosen = filters.filter((filter) => search[filter.key] !== undefined)
  const matching = rows.filter((row) => {
    const haystack = text(row).toLowerCase()
    return (
      words.every((word) => haystack.includes(word)) &&
      chosen.every((filter) => [filter.of(row)].flat().includes(search[filter.key] as string))
    )
  })
  const descending = search.sort?.startsWith('-')
  const sortBy = columns.find((column) => column.key === search.sort?.replace(/^-/, ''))?.sortBy
  if (sortBy) matching.sort((a, b) => compare(sortBy(a), sortBy(b)) * (descending ? -1 : 1))
  return matching
}

/** The rows by what they belong to; what comes first in the list comes first here. */
export function grouped<T>(rows: readonly T[], of: (row: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const row of rows) {
    const members = groups.get(of(row))
    if (members) members.push(row)
    else groups.set(of(row), [row])
  }
  return groups
}

/** Whether a list shows less than everything, or in another order than its own. */
export function narrowed(filters: readonly Pick<Filter<never>, 'key'>[], search: ListSearch): boolean {
  return ['q', 'sort', ...filters.map(({ key }) => key)].some((key) => search[key] !== undefined)
}

/** A click on a header: ascending, then descending, then the natural order again. */
export function nextSort(current: string | undefined, key: string): string | undefined {
  if (current === key) return `-${key}`
  return current === `-${key}` ? undefined : key
}
