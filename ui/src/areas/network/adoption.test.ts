import { expect, it } from 'vitest'
import { adoptionOf, offersStarter, proposal } from './adoption'
import { find } from './samples'

const wan = find('wan0', {
  suggested_role: 'wan',
  addresses: [
    { address: '198.51.100.7', prefix: 24, dynamic: true },
    { address: '198.51.100.1', prefix: 24, dynamic: false },
  ],
})
const lan = find('lan0', { addresses: [{ address: 'fd00::1', prefix: 64, dynamic: false }] })
const names = { reach: 'out', masquerade: 'hide' }
const both = { reach: true, masquerade: true }

function counted() {
  let last = 0
  return () => `id${++last}`
}

it('proposes every link but parts of others, and every address but those that somebody renews', () => {
  const bridge = find('br0', { type: 'bridge', members: ['eth1'] })
  const choices = proposal([wan, bridge, find('eth1')])
  expect(choices.map(({ take, zone, addresses }) => [take, zone, addresses])).toEqual([
    [true, 'wan', ['198.51.100.1/24']],
    [true, 'lan', []],
    [false, 'lan', []],
  ])
})

it('is one change set whose addresses name the ids of their interfaces', () => {
  const operations = adoptionOf(proposal([wan, lan]), both, names, counted())
  expect(operations.map(({ kind, id, verb }) => `${verb} ${kind} ${id}`)).toEqual([
    'create network.interface id1',
    'create network.ip-address id2',
    'create network.interface id3',
    'create network.ip-address id4',
    'create firewall.rule id5',
    'create firewall.nat-rule id6',
  ])
  expect(operations[0]?.body).toMatchObject({ name: 'wan0', type: 'ethernet', role: 'wan' })
  expect(operations[1]?.body).toEqual({ interface_id: 'id1', address: '198.51.100.1', prefix: 24 })
  expect(operations[3]?.body).toEqual({ interface_id: 'id3', address: 'fd00::1', prefix: 64 })
  expect(operations[4]?.body).toMatchObject({ src_zone: 'lan', dst_zone: 'wan', action: 'accept' })
  expect(operations[5]?.body).toMatchObject({ kind: 'masquerade', out_zone: 'wan' })
})

it('takes what was chosen, and rules only between a network inside and one outside', () => {
  const [first, second] = proposal([wan, lan])
  if (!first || !second) throw new Error('two links')
  const without = [first, { ...second, take: false }]
  expect(offersStarter(without)).toBe(false)
  expect(adoptionOf(without, both, names, counted()).map(({ kind }) => kind)).toEqual([
    'network.interface',
    'network.ip-address',
  ])
  const bare = [{ ...first, addresses: [] }, second]
  expect(adoptionOf(bare, { reach: true, masquerade: false }, names).map(({ kind }) => kind)).toEqual([
    'network.interface',
    'network.interface',
    'network.ip-address',
    'firewall.rule',
  ])
})
