import type { ListSearch } from '../../kit/list/list-logic'

const filters = ['actor', 'reason', 'kind', 'component', 'state'] as const
const toUtc = (local: string | undefined) => (local ? new Date(local).toISOString() : undefined)

/** What the gateway is asked for. Times stand in the address as the operator typed them, in his own zone. */
export function searchQuery(search: ListSearch) {
  return {
    ...Object.fromEntries(filters.filter((name) => search[name]).map((name) => [name, search[name]])),
    from: toUtc(search.from),
    to: toUtc(search.to),
  }
}

/** Whether a part of the history is left out. */
export const isFiltered = (search: ListSearch) =>
  Object.values(searchQuery(search)).some((value) => value !== undefined)
