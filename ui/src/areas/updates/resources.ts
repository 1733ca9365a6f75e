import { queryOptions } from '@tanstack/react-query'
import { http, unwrap } from '../../api/client'

/** The polling interval while something is running. The gateway is unreachable for part of that time. */
const often = 2000

export const versionsQuery = queryOptions({
  queryKey: ['system', 'package-versions'],
  queryFn: () => unwrap(http.GET('/system/package-versions')),
  refetchInterval: ({ state: { data } }) => (data && (data.refreshing || data.error) ? often : 60_000),
})

export const upgradeQuery = queryOptions({
  queryKey: ['system', 'upgrade'],
  queryFn: () => unwrap(http.GET('/system/upgrade')),
  refetchInterval: ({ state: { data } }) => (data?.state === 'running' ? often : 60_000),
})
