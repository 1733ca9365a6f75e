import { queryOptions } from '@tanstack/react-query'
import { http, unwrap } from '../../api/client'

/** Virtual addresses move between nodes without a change by a user. */
export const vipStatusQuery = queryOptions({
  queryKey: ['cluster.vip-settings', 'status'],
  queryFn: () => unwrap(http.GET('/cluster/vip-status')),
  refetchInterval: 5000,
})

/** Every request asks all nodes, and a dead one takes two seconds. */
export const statusQuery = queryOptions({
  queryKey: ['cluster', 'status'],
  queryFn: () => unwrap(http.GET('/cluster/status')),
  refetchInterval: 3000,
})

export const differencesQuery = queryOptions({
  queryKey: ['cluster', 'differences'],
  queryFn: () => unwrap(http.GET('/cluster/differences')),
  refetchInterval: 30_000,
})
