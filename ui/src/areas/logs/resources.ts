import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { http, unwrap } from '../../api/client'
import { pageSize } from './log-logic'

export const sourcesQuery = queryOptions({
  queryKey: ['logs', 'sources'],
  queryFn: () => unwrap(http.GET('/logs/sources')),
  staleTime: Number.POSITIVE_INFINITY,
})

/** Matching entries, newest first; the next page is older. */
export const entriesQuery = (query: Record<string, string>) =>
  infiniteQueryOptions({
    queryKey: ['logs', query],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        http.GET('/logs', {
          params: { query: { ...query, limit: pageSize, ...(pageParam && { cursor: pageParam }) } as object },
          signal,
        }),
      ),
    initialPageParam: '',
    getNextPageParam: ({ cursor }) => cursor || undefined,
    retry: false,
    staleTime: 0,
  })
