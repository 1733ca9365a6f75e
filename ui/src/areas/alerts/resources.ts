import { queryOptions } from '@tanstack/react-query'
import { http, unwrap } from '../../api/client'

// Alerts leave no audit entry, so their stream triggers a reload; they are polled as well.
export const openQuery = queryOptions({
  queryKey: ['alert', 'open'],
  queryFn: () => unwrap(http.GET('/alerts/open')),
  refetchInterval: 30_000,
})

export const eventsQuery = queryOptions({
  queryKey: ['alert', 'events'],
  queryFn: () => unwrap(http.GET('/alerts/events')),
  refetchInterval: 10_000,
})

export const kindsQuery = queryOptions({
  queryKey: ['alert', 'kinds'],
  queryFn: () => unwrap(http.GET('/alerts/kinds')),
  staleTime: Number.POSITIVE_INFINITY,
})
