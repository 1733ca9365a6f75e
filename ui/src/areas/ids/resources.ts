import { queryOptions } from '@tanstack/react-query'
import { http, unwrap } from '../../api/client'

/** CrowdSec's state changes without a user, so poll it. */
const often = 5000

export const statusQuery = queryOptions({
  queryKey: ['ids', 'status'],
  queryFn: () => unwrap(http.GET('/ids/status')),
  refetchInterval: often,
})

export const decisionsQuery = (search: string | undefined) =>
  queryOptions({
    queryKey: ['ids', 'decisions', search],
    queryFn: () => unwrap(http.GET('/ids/decisions', { params: { query: { search } } })),
    refetchInterval: often,
  })

export const alertsQuery = queryOptions({
  queryKey: ['ids', 'alerts'],
  queryFn: () => unwrap(http.GET('/ids/alerts', { params: { query: { limit: 500 } } })),
  refetchInterval: often,
})

export const alertQuery = (id: string) =>
  queryOptions({
    queryKey: ['ids', 'alert', id],
    queryFn: () => unwrap(http.GET('/ids/alerts/{id}', { params: { path: { id: Number(id) } } })),
  })

// Each of these runs cscli, which is slow.
export const bouncersQuery = queryOptions({
  queryKey: ['ids', 'bouncers'],
  queryFn: () => unwrap(http.GET('/ids/bouncers')),
})

export const machinesQuery = queryOptions({
  queryKey: ['ids', 'machines'],
  queryFn: () => unwrap(http.GET('/ids/machines')),
})

export const collectionsQuery = queryOptions({
  queryKey: ['ids', 'collections'],
  queryFn: () => unwrap(http.GET('/ids/collections')),
})
