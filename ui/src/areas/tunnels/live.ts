import type { Tunnel, TunnelDevice, TunnelPeer, TunnelPeerStatus } from '../../api/types'
import { grouped } from '../../kit/list/list-logic'
import type { Tone } from '../../kit/state/Notice'

/** A minute and a half of rates. */
export const slots = 30

export interface PeerLive extends TunnelPeerStatus {
  /** Bytes per second in both directions, oldest first. */
  history: readonly number[]
}

export interface Live {
  at: number
  peers: Record<string, PeerLive>
}

/** After a longer pause the rates in between are unknown, so the lines start again. */
const longest = 15_000

/** Adds WireGuard's current state to the history of each peer. */
export function remember(now: Record<string, TunnelPeerStatus>, at: number, before: Live | undefined): Live {
  const known = before && at - before.at <= longest ? before.peers : {}
  const peers = Object.entries(now).map(([key, peer]) => {
    const history = [...(known[key]?.history ?? []), peer.rx_rate + peer.tx_rate].slice(-slots)
    return [key, { ...peer, history }] as const
  })
  return { at, peers: Object.fromEntries(peers) }
}

/** Peers of several tunnels may share a key. The live state belongs to the tunnel on which it was seen. */
export function liveOf(live: Live | undefined, tunnel: Pick<Tunnel, 'name'>, key: string): PeerLive | undefined {
  const peer = live?.peers[key]
  return peer?.interface === tunnel.name ? peer : undefined
}

export interface Traffic {
  rx_rate: number
  tx_rate: number
  history: readonly number[]
}

/** The live peers of each tunnel, by its name. */
export const heardOn = (live: Live | undefined) => grouped(Object.values(live?.peers ?? {}), (peer) => peer.interface)

/** The traffic of all peers of a tunnel. */
export function trafficOf(own: readonly PeerLive[] = []): Traffic {
  const sum = (of: (peer: PeerLive) => number) => own.reduce((all, peer) => all + of(peer), 0)
  const length = Math.max(0, ...own.map(({ history }) => history.length))
  const history = Array.from({ length }, (_, index) => sum((peer) => peer.history.at(index - length) ?? 0))
  return { rx_rate: sum((peer) => peer.rx_rate), tx_rate: sum((peer) => peer.tx_rate), history }
}

/** How many peers a tunnel has, and how many are online. A client's only peer is its upstream. */
export function peersOf(tunnel: Tunnel, own: readonly TunnelPeer[], live: Live | undefined) {
  const keys = tunnel.mode === 'client' ? [tunnel.upstream_public_key] : own.map(({ public_key }) => public_key)
  return { all: keys.length, online: keys.filter((key) => liveOf(live, tunnel, key)?.online).length }
}

export type LinkState = 'off' | 'unknown' | 'up' | 'broken' | 'elsewhere'

export const linkTones: Record<LinkState, Tone> = {
  off: 'off',
  unknown: 'off',
  up: 'live',
  broken: 'bad',
  elsewhere: 'off',
}

/** The state of a tunnel's interface. */
export function linkOf(
  tunnel: Pick<Tunnel, 'name' | 'active'>,
  devices: readonly TunnelDevice[] | undefined,
): { state: LinkState; device?: TunnelDevice } {
  if (!tunnel.active) return { state: 'off' }
  const device = devices?.find(({ name }) => name === tunnel.name)
  if (!device) return { state: 'unknown' }
  if (device.elsewhere) return { state: 'elsewhere', device }
  return { state: device.up && !device.error ? 'up' : 'broken', device }
}
