import { queryOptions } from '@tanstack/react-query'
import { http, unwrap } from './client'

export const healthQuery = queryOptions({
  queryKey: ['system', 'health'],
  queryFn: () => unwrap(http.GET('/system/health')),
  refetchInterval: 15_000,
})

/** The nodes in their last known state; empty if the gateway is not in a cluster. */
export const nodesQuery = queryOptions({
  queryKey: ['cluster', 'nodes'],
  queryFn: () => unwrap(http.GET('/cluster/nodes')),
  refetchInterval: 10_000,
})
