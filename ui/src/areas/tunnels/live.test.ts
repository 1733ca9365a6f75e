import { describe, expect, it } from 'vitest'
import type { Tunnel, TunnelDevice, TunnelPeer, TunnelPeerStatus } from '../../api/types'
import { heardOn, linkOf, liveOf, peersOf, remember, slots, trafficOf } from './live'

const status = (rate: number, part: Partial<TunnelPeerStatus> = {}): TunnelPeerStatus => ({
  interface: 'wg0',
  endpoint: '',
  allowed_ips: [],
  last_handshake: null,
  rx: 0,
  tx: 0,
  rx_rate: rate,
  tx_rate: rate,
  online: false,
  error: '',
  ...part,
})
const tunnel = (part: Partial<Tunnel> = {}) =>
  ({ id: 't0', name: 'wg0', mode: 'server', active: true, ...part }) as Tunnel

describe('the rates of recent polls', () => {
  it('grow with every answer, up to the length of the line', () => {
    let live = remember({ a: status(1) }, 0, undefined)
    for (let n = 1; n < slots + 5; n++) live = remember({ a: status(n + 1) }, n * 3000, live)
    expect(live.peers.a?.history).toHaveLength(slots)
    expect(live.peers.a?.history.at(-1)).toBe(2 * (slots + 5))
  })

  it('start again after a pause', () => {
    const before = remember({ a: status(1) }, 0, undefined)
    expect(remember({ a: status(2) }, 60_000, before).peers.a?.history).toEqual([4])
  })

  it('of a tunnel are the sums of its peers, aligned at the newest', () => {
    const before = remember({ a: status(1), far: status(9, { interface: 'wg1' }) }, 0, undefined)
    const live = remember({ a: status(2), b: status(3), far: status(9, { interface: 'wg1' }) }, 3000, before)
    expect(trafficOf(heardOn(live).get('wg0'))).toEqual({ rx_rate: 5, tx_rate: 5, history: [2, 10] })
    expect(trafficOf(heardOn(undefined).get('wg0'))).toEqual({ rx_rate: 0, tx_rate: 0, history: [] })
  })
})

it('a key seen on another tunnel is unknown on this one', () => {
  const live = remember({ a: status(0, { interface: 'wg1' }) }, 0, undefined)
  expect(liveOf(live, tunnel(), 'a')).toBeUndefined()
  expect(liveOf(live, tunnel({ name: 'wg1' }), 'a')).toBeDefined()
})

it('counts the peers of a server, and the upstream of a client', () => {
  const live = remember({ a: status(0, { online: true }), b: status(0), up: status(0, { online: true }) }, 0, undefined)
  const peer = (public_key: string) => ({ public_key }) as TunnelPeer
  expect(peersOf(tunnel(), [peer('a'), peer('b')], live)).toEqual({ all: 2, online: 1 })
  const client = tunnel({ mode: 'client', upstream_public_key: 'up' })
  expect(peersOf(client, [], live)).toEqual({ all: 1, online: 1 })
})

it("knows the state of a tunnel's interface", () => {
  const device = (part: Partial<TunnelDevice>) => [{ name: 'wg0', up: true, error: '', ...part } as TunnelDevice]
  expect(linkOf(tunnel({ active: false }), device({})).state).toBe('off')
  expect(linkOf(tunnel(), undefined).state).toBe('unknown')
  expect(linkOf(tunnel(), []).state).toBe('unknown')
  expect(linkOf(tunnel(), device({})).state).toBe('up')
  expect(linkOf(tunnel(), device({ up: false, elsewhere: true })).state).toBe('elsewhere')
  expect(linkOf(tunnel(), device({ up: false })).state).toBe('broken')
  expect(linkOf(tunnel(), device({ error: 'the link is not there' })).state).toBe('broken')
})
