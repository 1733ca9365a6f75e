import { queryOptions } from '@tanstack/react-query'
import { http, unwrap } from '../api/client'
import { singleton } from '../api/resource'

export const healthQuery = queryOptions({
  queryKey: ['system', 'health'],
  queryFn: () => unwrap(http.GET('/system/health')),
  refetchInterval: 15_000,
})

export const maintenance = singleton('system.maintenance', '/system/maintenance', 'post')
