import type { Column } from './DataTable'

/** A list's search parameters: ?q=…&sort=-name&role=admin. */
export type ListSearch = Record<string, string | undefined>

/** Keeps search parameters that can be text. Numbers become text. */
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
  /** The row's value for this filter, or several values. */
  of: (row: T) => string | readonly string[]
  /** Shows a select instead of chips. */
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

/** The rows that match search and filters, sorted. By default in the server's order. */
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

/** Groups rows by key, in the order in which the keys first appear. */
export function grouped<T>(rows: readonly T[], of: (row: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const row of rows) {
    const members = groups.get(of(row))
    if (members) members.push(row)
    else groups.set(of(row), [row])
  }
  return groups
}

/** Whether a list is filtered or sorted. */
export function narrowed(filters: readonly Pick<Filter<never>, 'key'>[], search: ListSearch): boolean {
  return ['q', 'sort', ...filters.map(({ key }) => key)].some((key) => search[key] !== undefined)
}

/** Clicks on a header sort ascending, then descending, then not at all. */
export function nextSort(current: string | undefined, key: string): string | undefined {
  if (current === key) return `-${key}`
  return current === `-${key}` ? undefined : key
}
