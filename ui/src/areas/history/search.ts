import type { ListSearch } from '../../kit/list/list-logic'

const filters = ['actor', 'reason', 'kind', 'component', 'state'] as const
const toUtc = (local: string | undefined) => (local ? new Date(local).toISOString() : undefined)

/** The query for the gateway. Times in the address bar are local, as typed. */
export function searchQuery(search: ListSearch) {
  return {
    ...Object.fromEntries(filters.filter((name) => search[name]).map((name) => [name, search[name]])),
    from: toUtc(search.from),
    to: toUtc(search.to),
  }
}

/** Whether any filter is set. */
export const isFiltered = (search: ListSearch) =>
  Object.values(searchQuery(search)).some((value) => value !== undefined)
