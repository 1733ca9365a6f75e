import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { http, unwrap } from '../../api/client'

/** The limit on clients to show. A search finds the others. */
const shown = 2000

export const clientsQuery = (search: string) =>
  queryOptions({
    queryKey: ['clients', search],
    queryFn: () => unwrap(http.GET('/clients', { params: { query: { search, limit: shown } } })),
    refetchInterval: 5000,
    placeholderData: keepPreviousData,
  })

export const clientQuery = (id: string) =>
  queryOptions({
    queryKey: ['clients', 'one', id],
    queryFn: () => unwrap(http.GET('/clients/{id}', { params: { path: { id } } })),
    refetchInterval: 5000,
    retry: false,
  })

export const disconnect = (id: string) => unwrap(http.POST('/clients/{id}/disconnect', { params: { path: { id } } }))
