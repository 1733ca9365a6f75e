import { answer, http } from '../../api/client'
import type { Adoptable, FirstSite, FirstVpn, NetworkProposal, ProposedNetwork } from '../../api/types'
import { networkOf, propose } from '../dhcp/subnet'

/** The user's choice for an unmanaged interface. */
export interface Choice {
  link: Adoptable
  take: boolean
  network: ProposedNetwork
}

/** Settings for all networks. */
export interface Sources {
  upstream_forwards: string[]
  time_servers: string[]
  masquerade: boolean
}

/** A site to publish, and a VPN with its first device. */
export interface Beyond {
  site?: FirstSite
  vpn?: FirstVpn
}
export const usualPorts = { http: 80, https: 443 } as const
export const noSite: FirstSite = { name: '', scheme: 'http', address: '', port: usualPorts.http }
export const noVpn: FirstVpn = { peer: '', endpoint: '' }

/** The proposal for the interfaces. Those that are part of another one are left out. */
export function proposal(links: readonly Adoptable[], { networks }: NetworkProposal): Choice[] {
  return networks.flatMap((network) => {
    const link = links.find(({ name }) => name === network.name)
    return link ? [{ link, take: true, network }] : []
  })
}

/** The gateway's services for a network. */
export const services = ['dhcp', 'dns', 'ntp', 'internet'] as const

const bare = (bound: string) => bound.split('/')[0] ?? ''

/** The DHCP range for the first IPv4 address: the half of its network without the gateway. */
export function rangeOf(addresses: readonly string[]) {
  const bound = addresses.find(networkOf) ?? ''
  const { range_start, range_end } = propose(networkOf(bound), [bare(bound)])
  return { range_start, range_end }
}

/** Changes a network's addresses; the DHCP range follows. */
export function withAddresses(network: ProposedNetwork, addresses: string[]): ProposedNetwork {
  const range = rangeOf(addresses)
  const served = addresses.length > 0 && network.role !== 'wan'
  return {
    ...network,
    addresses,
    ...range,
    gateway: addresses.length > 0 ? network.gateway : '',
    dhcp: served && network.dhcp && range.range_start !== '',
    dns: served && network.dns,
    ntp: served && network.ntp,
  }
}

/** Changes a network's zone. The gateway offers its services everywhere but in the WAN zone. */
export function withZone(network: ProposedNetwork, role: string): ProposedNetwork {
  if ((role === 'wan') === (network.role === 'wan')) return { ...network, role }
  const inside = role !== 'wan'
  const range = rangeOf(network.addresses)
  const has = inside && network.addresses.length > 0
  return {
    ...network,
    role,
    gateway: inside ? '' : network.gateway,
    ...range,
    dhcp: has && range.range_start !== '',
    dns: has,
    ntp: has,
    internet: inside,
  }
}

const taken = (choices: readonly Choice[]) => choices.filter(({ take }) => take).map(({ network }) => network)

/** Whether any chosen network should reach the internet. */
export const reachesOut = (choices: readonly Choice[]) => taken(choices).some(({ internet }) => internet)

type Intent = { preview: boolean } | { reason: string; confirm_within: number }

/** Sets up networks, or previews that. */
export const setUp = (networks: ProposedNetwork[], further: Partial<Sources & Beyond>, intent: Intent) =>
  answer(http.POST('/network/setup', { body: { networks, ...further, ...intent } }))

/** The request for these choices. Settings for all networks are only sent if they changed. */
export function setupOf(choices: readonly Choice[], sources: Sources, was: NetworkProposal) {
  const same = (a: readonly string[], b: readonly string[]) => JSON.stringify(a) === JSON.stringify(b)
  const { upstream_forwards, time_servers, masquerade } = sources
  return {
    networks: taken(choices),
    sources: {
      masquerade,
      ...(same(upstream_forwards, was.upstream_forwards) ? {} : { upstream_forwards }),
      ...(same(time_servers, was.time_servers) ? {} : { time_servers }),
    },
  }
}
