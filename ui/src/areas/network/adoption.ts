import { answer, http } from '../../api/client'
import type { Adoptable, FirstSite, FirstVpn, NetworkProposal, ProposedNetwork } from '../../api/types'
import { networkOf, propose } from '../dhcp/subnet'

/** What the operator wants of a link that nobody declared. */
export interface Choice {
  link: Adoptable
  take: boolean
  network: ProposedNetwork
}

/** What concerns all networks. */
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

/** What is proposed for the links; those that are part of another one are not among them. */
export function proposal(links: readonly Adoptable[], { networks }: NetworkProposal): Choice[] {
  return networks.flatMap((network) => {
    const link = links.find(({ name }) => name === network.name)
    return link ? [{ link, take: true, network }] : []
  })
}

/** What the gateway does for the machines of a network. */
export const services = ['dhcp', 'dns', 'ntp', 'internet'] as const

const bare = (bound: string) => bound.split('/')[0] ?? ''

/** The half of the network of the first IPv4 address that is handed out. */
export function rangeOf(addresses: readonly string[]) {
  const bound = addresses.find(networkOf) ?? ''
  const { range_start, range_end } = propose(networkOf(bound), [bare(bound)])
  return { range_start, range_end }
}

/** A network with other addresses: what is handed out follows them. */
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

/** A network in another zone: the gateway serves what is inside, and nothing outside. */
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

/** Whether a network inside is to reach the internet. */
export const reachesOut = (choices: readonly Choice[]) => taken(choices).some(({ internet }) => internet)

type Intent = { preview: boolean } | { reason: string; confirm_within: number }

/** Sets networks up, or says what that would change. */
export const setUp = (networks: ProposedNetwork[], further: Partial<Sources & Beyond>, intent: Intent) =>
  answer(http.POST('/network/setup', { body: { networks, ...further, ...intent } }))

/** Of what concerns all networks, only what differs from what there is. */
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
