import { queryOptions } from '@tanstack/react-query'
import { http, raw, unwrap } from '../../api/client'
import { Fault } from '../../api/fault'
import { peers, tunnels } from '../../api/resources'
import { type Live, remember } from './live'

export const tunnelsQuery = queryOptions({ queryKey: [tunnels.kind], queryFn: tunnels.list })
export const peersQuery = queryOptions({ queryKey: [peers.kind], queryFn: peers.list })

/** The live state of each peer, polled while a page shows it. */
export const liveQuery = queryOptions({
  queryKey: ['tunnel', 'status'],
  queryFn: async ({ client, queryKey }) => {
    const now = await unwrap(http.GET('/tunnel/status'))
    const silent = Object.values(now).find(({ error }) => error)
    if (silent) throw new Fault({ code: 'unavailable', status: 200, message: silent.error })
    return remember(now, Date.now(), client.getQueryData<Live>(queryKey))
  },
  refetchInterval: 3000,
})

export const devicesQuery = queryOptions({
  queryKey: ['tunnel', 'devices'],
  queryFn: () => unwrap(http.GET('/tunnel/devices')),
  refetchInterval: 5000,
})

export const importableQuery = queryOptions({
  queryKey: ['tunnel', 'importable'],
  queryFn: () => unwrap(http.GET('/tunnel/importable')),
})

export const nextAddressQuery = (id: string) =>
  queryOptions({
    queryKey: ['tunnel', 'next-address', id],
    queryFn: () => unwrap(http.GET('/tunnel/interfaces/{id}/next-address', { params: { path: { id } } })),
    retry: false,
  })

/** A peer's configuration contains its private key, so it is dropped from the cache when no longer shown. */
export const configQuery = (id: string) =>
  queryOptions({
    queryKey: [peers.kind, id, 'config'],
    queryFn: async () =>
      String(await raw(http.GET('/peers/{id}/config', { params: { path: { id } }, parseAs: 'text' }))),
    gcTime: 0,
    retry: false,
  })

export const qrQuery = (id: string) =>
  queryOptions({
    queryKey: [peers.kind, id, 'qr'],
    queryFn: async () => {
      const picture = await raw(http.GET('/peers/{id}/qr', { params: { path: { id } }, parseAs: 'blob' }))
      return dataURL(picture as Blob)
    },
    gcTime: 0,
    retry: false,
  })

function dataURL(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(String(reader.result))
    reader.onerror = () => reject(reader.error)
    reader.readAsDataURL(blob)
  })
}
