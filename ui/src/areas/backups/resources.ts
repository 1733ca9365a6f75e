import { queryOptions } from '@tanstack/react-query'
import { http, unwrap } from '../../api/client'

/** The polling interval while something is running. The gateway is unreachable for part of that time. */
const often = 1000

export const backupsQuery = queryOptions({
  queryKey: ['backups'],
  queryFn: () => unwrap(http.GET('/backups')),
  refetchInterval: ({ state: { data } }) =>
    data?.some(({ status, proof, phase }) => status === 'running' || proof?.status === 'running' || phase)
      ? often
      : 15_000,
})

export const restoreQuery = queryOptions({
  queryKey: ['backups', 'restore'],
  queryFn: () => unwrap(http.GET('/backups/restore')),
  refetchInterval: ({ state: { data } }) => (data?.state === 'running' ? often : 60_000),
})

export const downloadOf = (id: string) => `/api/v1/backups/${encodeURIComponent(id)}/download`
