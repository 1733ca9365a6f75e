import { describe, expect, it } from 'vitest'
import type { Tunnel } from '../../api/types'
import { everything, peerShape, propose, randomKey, tunnelShape, unmasked } from './tunnel'

const row = (name: string, address_cidr: string, listen_port: number) => ({ name, address_cidr, listen_port })

describe('the proposal for a new tunnel', () => {
  it('is the usual first one', () => {
    expect(propose([])).toMatchObject({ name: 'wg0', address_cidr: '10.8.0.1/24', listen_port: 51_820 })
  })

  it('is unused by other tunnels', () => {
    const rows = [row('wg0', '10.8.0.1/24,fd00:8::1/64', 51_820), row('office', '10.8.1.1/24', 51_821)]
    expect(propose(rows)).toMatchObject({ name: 'wg1', address_cidr: '10.8.2.1/24', listen_port: 51_822 })
  })
})

describe('the form of a tunnel', () => {
  const values = {
    address_cidr: ['10.8.0.1/24', 'fd00:8::1/64'],
    listen_port: null,
    client_routes: ['10.20.0.0/16'],
    dns: ['10.8.0.1'],
    endpoint_host: 'vpn.example.net',
    upstream_endpoint: 'far.example.net:51820',
    upstream_public_key: 'a key',
    upstream_allowed_ips: ['10.0.0.0/8'],
    upstream_keepalive: null,
  }

  it('has lists where the API has one text', () => {
    expect(tunnelShape.read({ address_cidr: '10.8.0.1/24,fd00:8::1/64', dns: '' })).toEqual({
      address_cidr: ['10.8.0.1/24', 'fd00:8::1/64'],
      dns: [],
    })
    expect(tunnelShape.write({ ...values, mode: 'server' })).toMatchObject({
      address_cidr: '10.8.0.1/24,fd00:8::1/64',
      client_routes: '10.20.0.0/16',
      listen_port: 0,
    })
  })

  it('clears fields of the other mode', () => {
    expect(tunnelShape.write({ ...values, mode: 'server' })).toMatchObject({
      upstream_endpoint: '',
      upstream_public_key: '',
      upstream_preshared_key: '',
      upstream_allowed_ips: everything.join(','),
      upstream_keepalive: 25,
    })
    expect(tunnelShape.write({ ...values, mode: 'client' })).toMatchObject({
      client_routes: '',
      dns: '',
      endpoint_host: '',
      upstream_allowed_ips: '10.0.0.0/8',
      upstream_keepalive: 0,
    })
  })
})

it('sends the key of a device that has one, and none to have one generated', () => {
  const { write } = peerShape('t1')
  const typed = { name: 'anna', allowed_ips: ['10.8.0.2/32'], public_key: 'hers', keepalive: 25 }
  const sent = { name: 'anna', allowed_ips: '10.8.0.2/32', keepalive: 25, interface_id: 't1' }
  expect(write({ ...typed, key: 'own' })).toEqual({ ...sent, public_key: 'hers' })
  expect(write({ ...typed, key: 'made' })).toEqual({ ...sent, public_key: '' })
})

it("generates keys in WireGuard's format", () => {
  expect(atob(randomKey())).toHaveLength(32)
  expect(randomKey()).not.toBe(randomKey())
})

describe('a full tunnel', () => {
  const tunnel = (part: Partial<Tunnel> = {}) =>
    ({ mode: 'server', address_cidr: 'fd00:8::1/64,10.8.0.1/24', client_routes: '0.0.0.0/0', ...part }) as Tunnel
  const rule = (part: object = {}) => ({
    kind: 'masquerade' as const,
    enabled: true,
    in_zone: 'any',
    out_zone: 'wan',
    protocol: 'any' as const,
    src_cidr: '',
    dst_cidr: '',
    ...part,
  })

  it('needs a masquerade rule for its network', () => {
    expect(unmasked(tunnel(), [], undefined)).toBe('10.8.0.0/24')
  })

  it.each([{}, { src_cidr: '10.8.0.0/24' }, { src_cidr: '10.0.0.0/8' }, { in_zone: 'vpn' }, { out_zone: 'any' }])(
    'is covered by a rule with %j',
    (part) => {
      expect(unmasked(tunnel(), [rule(part)], 'vpn')).toBeUndefined()
    },
  )

  it.each([
    { enabled: false },
    { kind: 'snat' },
    { src_cidr: '10.9.0.0/24' },
    { src_cidr: '10.8.0.0/25' },
    { in_zone: 'lan' },
    { out_zone: 'guest' },
    { protocol: 'tcp' },
    { dst_cidr: '192.0.2.0/24' },
  ])('is not covered by a rule with %j', (part) => {
    expect(unmasked(tunnel(), [rule(part)], 'vpn')).toBe('10.8.0.0/24')
  })

  it('needs a rule for each family that it carries', () => {
    const both = { client_routes: '0.0.0.0/0,::/0' }
    expect(unmasked(tunnel(both), [rule({ src_cidr: '10.8.0.0/24' })], undefined)).toBe('fd00:8::/64')
    expect(
      unmasked(tunnel(both), [rule({ src_cidr: '10.8.0.0/24' }), rule({ src_cidr: 'fd00:8::/48' })], undefined),
    ).toBeUndefined()
    expect(unmasked(tunnel(both), [rule()], undefined)).toBeUndefined()
  })

  it('needs none for public addresses', () => {
    expect(unmasked(tunnel({ client_routes: '::/0', address_cidr: '2001:db8:8::1/64' }), [], undefined)).toBeUndefined()
  })

  it.each([{ client_routes: '10.20.0.0/16' }, { client_routes: '' }, { mode: 'client' as const }])(
    'is none with %j',
    (part) => {
      expect(unmasked(tunnel(part), [], undefined)).toBeUndefined()
    },
  )
})
