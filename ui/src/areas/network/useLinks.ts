import { queryOptions, useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { live } from '../../api/live'
import { interfaces, ipAddresses, zones } from '../../api/resources'
import { grouped } from '../../kit/list/list-logic'
import { interfaceKind, useUsage } from '../firewall/book'
import { peersQuery, tunnelsQuery } from '../tunnels/resources'
import { types } from './interface-shape'
import { joinLinks, type Link, ownAddresses } from './links'
import { type Sample, sample } from './rates'

const none: never[] = []

/** The kernel's interfaces with their rates, polled while shown. */
export const sampleQuery = queryOptions({
  queryKey: ['network', 'links'],
  queryFn: async ({ client, queryKey }) => {
    const links = live(await unwrap(http.GET('/system/interfaces')))
    return sample(links, Date.now(), client.getQueryData<Sample>(queryKey))
  },
  refetchInterval: 2500,
})

export const adoptableQuery = queryOptions({
  queryKey: ['network', 'adoptable'],
  queryFn: async () => live(await unwrap(http.GET('/network/adoptable'))),
  refetchInterval: 15_000,
})

export const interfacesQuery = queryOptions({ queryKey: [interfaces.kind], queryFn: interfaces.list })
export const addressesQuery = queryOptions({ queryKey: [ipAddresses.kind], queryFn: ipAddresses.list })

/** Configuration and live state, joined. Data that has not arrived is empty; the queries tell why. */
export function useLinks() {
  const queries = {
    live: useQuery(sampleQuery),
    declared: useQuery(interfacesQuery),
    addresses: useQuery(addressesQuery),
    adoptable: useQuery(adoptableQuery),
  }
  const plugged = queries.live.data?.links ?? none
  const declared = queries.declared.data ?? none
  const addresses = queries.addresses.data ?? none
  const adoptable = queries.adoptable.data ?? none
  const links = useMemo(
    () => joinLinks({ live: plugged, declared, addresses, adoptable }),
    [plugged, declared, addresses, adoptable],
  )
  return { links, rates: queries.live.data?.rates ?? {}, queries }
}

/** Messages about interface types that this machine's kernel does not support, by type. */
export function useUnsupported(): Record<string, string> {
  const { t } = useTranslation('network')
  const { data } = useQuery({
    queryKey: ['network', 'interface-types'],
    queryFn: () => unwrap(http.GET('/network/interface-types')),
    staleTime: Number.POSITIVE_INFINITY,
  })
  const missing = data ? types.filter((type) => !data.types.includes(type)) : []
  return Object.fromEntries(missing.map((type) => [type, t('interface.unsupported')]))
}

/** The addresses that a service can listen on. */
export function useOwnAddresses() {
  const { links } = useLinks()
  return useMemo(() => ownAddresses(links), [links])
}

/** The zones that an interface can be in. */
export function useZoneNames(): string[] {
  const { data } = useQuery({ queryKey: [zones.kind], queryFn: zones.list })
  return useMemo(() => (data ?? []).map(({ name }) => name).filter((name) => name !== 'any' && name !== 'self'), [data])
}

export interface ZoneCounts {
  rules: number
  peers: number
}

/** For each zone, how many rules name it, and how many peers its tunnels have. */
export function useZoneCounts(links: readonly Link[]): Map<string, ZoneCounts> {
  const { data: known } = useQuery({ queryKey: [zones.kind], queryFn: zones.list })
  const { data: tunnels } = useQuery(tunnelsQuery)
  const { data: peers } = useQuery(peersQuery)
  const usage = useUsage()
  return useMemo(() => {
    const zoneOf = new Map(links.map(({ name, zone }) => [name, zone]))
    const inside = new Map((tunnels ?? []).map(({ id, name }) => [id, zoneOf.get(name)]))
    const connected = grouped(peers ?? none, ({ interface_id }) => inside.get(interface_id) ?? '')
    return new Map(
      (known ?? none).map(({ id, name }) => [
        name,
        {
          rules: usage.get(id)?.filter(({ kind }) => kind !== interfaceKind).length ?? 0,
          peers: connected.get(name)?.length ?? 0,
        },
      ]),
    )
  }, [links, known, tunnels, peers, usage])
}
