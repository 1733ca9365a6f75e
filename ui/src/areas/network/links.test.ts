import { describe, expect, it } from 'vitest'
import { addressRows } from './address-rows'
import { interfaceShape } from './interface-shape'
import { isManaged, joinLinks, ownAddresses, toneOf } from './links'
import { sample } from './rates'
import { bind, declare, find, live, plug } from './samples'

const nothing = { declared: [], addresses: [], live: [], adoptable: [] }
const only = (part: Partial<Parameters<typeof joinLinks>[0]>) => joinLinks({ ...nothing, ...part })

describe('an interface', () => {
  it("has the kernel's state, or is missing", () => {
    const links = only({
      declared: ['a', 'b', 'c', 'd'].map((name) => declare(name)),
      live: [plug('a'), plug('b', { flags: ['UP', 'NO-CARRIER'] }), plug('c', { flags: [] })],
    })
    expect(links.map(({ state }) => state)).toEqual(['up', 'no-carrier', 'down', 'missing'])
    expect(links.map(toneOf)).toEqual(['live', 'warn', 'bad', 'bad'])
  })

  it('that is off may be down', () => {
    const [link] = only({ declared: [declare('br0', { active: false })] })
    expect(link && toneOf(link)).toBe('off')
  })

  it('is listed once, whether configured, live or both; loopback is not listed', () => {
    const links = only({
      declared: [declare('eth10'), declare('eth2')],
      live: [plug('eth2'), plug('eth3'), plug('lo', { link_type: 'loopback' })],
    })
    expect(links.map(({ name }) => name)).toEqual(['eth2', 'eth3', 'eth10'])
  })

  it('knows what is below it from its row, or from the adoptable interfaces', () => {
    const links = only({
      declared: [declare('eth0.20', { type: 'vlan', parent: 'eth0', vlan_id: 20 })],
      live: [plug('br0')],
      adoptable: [find('br0', { type: 'bridge', members: ['eth1'] })],
    })
    expect(links.map(({ under }) => under)).toEqual([['eth1'], ['eth0']])
  })
})

describe('an address', () => {
  const links = only({
    declared: [declare('lan0')],
    addresses: [bind('lan0', '10.0.0.1', 24), bind('lan0', '10.0.0.9', 24, { is_vip: true })],
    live: [plug('lan0', { addr_info: [live('10.0.0.1', 24), live('10.0.0.77', 24), live('fe80::1', 64, 'link')] })],
  })

  it('is managed, virtual, or unmanaged; link-local ones do not count', () => {
    expect(links[0]?.addresses.map(({ text, kind, bound }) => [text, kind, bound])).toEqual([
      ['10.0.0.1/24', 'managed', true],
      ['10.0.0.9/24', 'vip', false],
      ['10.0.0.77/24', 'manual', true],
    ])
  })

  it('of a tunnel belongs to the tunnel, and is managed', () => {
    const [wg] = only({ live: [plug('wg0', { tunnel: true, addr_info: [live('10.7.0.1', 24)] })] })
    expect([wg?.type, wg?.addresses.map(({ kind }) => kind)]).toEqual(['wireguard', ['managed']])
    expect(wg && isManaged(wg)).toBe(true)
    const [other] = only({ live: [plug('eth9')] })
    expect(other && isManaged(other)).toBe(false)
  })

  it('has a row whether it is managed or not', () => {
    expect(addressRows(links).map(({ id, link, tone }) => [id, link, tone])).toEqual([
      ['id of 10.0.0.1', 'lan0', 'live'],
      ['id of 10.0.0.9', 'lan0', 'bad'],
      ['lan0 10.0.0.77/24', 'lan0', 'live'],
    ])
  })

  it('that is virtual may be on another node of a cluster', () => {
    const vip = {
      clustered: true,
      state: 'backup',
      since: null,
      addresses: ['10.0.0.9', '10.0.0.77'],
      drained: false,
    } as const
    expect(
      addressRows(links, { ...vip, addresses: [...vip.addresses] }).map(({ kind, state, tone }) => [kind, state, tone]),
    ).toEqual([
      ['managed', 'bound', 'live'],
      ['vip', 'elsewhere', 'off'],
      ['vip', 'bound', 'live'],
    ])
  })
})

describe('a rate', () => {
  const first = sample([plug('eth0', { rx_bytes: 1000, tx_bytes: 10 })], 1000, undefined)

  it('needs two samples', () => {
    expect(first.rates).toEqual({})
    expect(sample([plug('eth0', { rx_bytes: 6000, tx_bytes: 10 })], 3000, first).rates).toEqual({
      eth0: { rx: 2500, tx: 0 },
    })
  })

  it('is unknown after a long pause, and if a counter was reset', () => {
    expect(sample([plug('eth0', { rx_bytes: 6000 })], 60_000, first).rates).toEqual({})
    expect(sample([plug('eth0', { rx_bytes: 5 })], 3000, first).rates).toEqual({})
  })
})

it('clears fields that the type does not have', () => {
  const values = { type: 'bridge', parent: 'eth0', vlan_id: 20, members: ['eth1'], bond_mode: '802.3ad' }
  expect(interfaceShape.write(values)).toEqual({ ...values, parent: '', vlan_id: null, bond_mode: null })
  expect(interfaceShape.write({ ...values, type: 'vlan' })).toEqual({
    ...values,
    type: 'vlan',
    members: [],
    bond_mode: null,
  })
})

it('offers its addresses to listen on, inside ones first', () => {
  const links = only({
    declared: [declare('eth0', { role: 'wan' }), declare('eth1', { role: 'lan' }), declare('eth2')],
    addresses: [bind('eth0', '198.51.100.1', 24), bind('eth1', '10.10.0.1', 24), bind('eth1', '2001:db8::1', 64)],
  })
  expect(ownAddresses(links)).toEqual([
    { group: 'eth1 (lan)', items: ['10.10.0.1', '2001:db8::1'] },
    { group: 'eth0 (wan)', items: ['198.51.100.1'] },
  ])
})
