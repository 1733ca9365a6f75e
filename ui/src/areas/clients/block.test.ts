import { expect, it } from 'vitest'
import type { Client } from '../../api/types'
import { addressesOf, blockOperations, nameOf, type Stored, unblockOperations } from './block'

const client = {
  id: 'aa:bb:cc:00:00:01',
  mac: 'aa:bb:cc:00:00:01',
  name: 'tv',
  addresses: [{ address: '10.1.0.9' }, { address: '2001:db8::9' }, { address: 'fe80::9' }],
  blocked_by: [],
} as unknown as Client

const nothing: Stored = { objects: [], groups: [], rules: [] }
const stored = (part: object) => ({ ...nothing, ...part }) as unknown as Stored
function ids() {
  let last = 0
  return () => `new-${++last}`
}
const wide = { src_zone: 'any', dst_zone: 'any', dst_kind: 'any', action: 'drop', enabled: true }

it('blocks the addresses that can pass the gateway', () => {
  expect(addressesOf(client)).toEqual(['10.1.0.9', '2001:db8::9'])
  expect(nameOf({ ...client, name: '' })).toBe('10.1.0.9')
  expect(nameOf({ ...client, name: '', addresses: [] })).toBe('aa:bb:cc:00:00:01')
})

it('creates objects, the group and the first rule for the first client', () => {
  const rules = [{ id: 'r', priority: 10, src_zone: 'lan', action: 'accept' }]
  const operations = blockOperations(
    client,
    stored({ rules, objects: [{ id: 'x', name: 'tv 10.1.0.9', kind: 'fqdn' }] }),
    ids(),
  )
  expect(operations.map(({ kind, verb, body }) => [kind, verb, (body as { name: string }).name])).toEqual([
    ['firewall.address-object', 'create', 'tv 10.1.0.9 2'],
    ['firewall.address-object', 'create', 'tv 2001:db8::9'],
    ['firewall.address-group', 'create', 'Blocked clients'],
    ['firewall.rule', 'create', 'Blocked clients'],
  ])
  expect(operations[2]?.body).toMatchObject({ members: ['new-1', 'new-2'] })
  expect(operations[3]?.body).toMatchObject({ src_group_id: 'new-3', action: 'drop', priority: 0 })
})

it('adds to an existing group, with existing objects', () => {
  const objects = [
    { id: 'a', name: 'the tv', kind: 'host', value: '10.1.0.9' },
    { id: 'b', name: 'six', kind: 'host', value: '2001:db8::9' },
  ]
  const groups = [{ id: 'g', name: 'Blocked clients', members: ['z', 'a'] }]
  const rule = { id: 'r', priority: 1, src_group_id: 'g', ...wide }
  expect(blockOperations(client, stored({ objects, groups, rules: [rule] }), ids())).toEqual([
    { kind: 'firewall.address-group', verb: 'update', id: 'g', body: { members: ['z', 'a', 'b'] } },
  ])
  // A rule that is off is turned on; one that drops less does not count.
  expect(blockOperations(client, stored({ objects, groups, rules: [{ ...rule, enabled: false }] }), ids())[1]).toEqual({
    kind: 'firewall.rule',
    verb: 'update',
    id: 'r',
    body: { enabled: true },
  })
  const narrow = { ...rule, dst_zone: 'lan' }
  expect(blockOperations(client, stored({ objects, groups, rules: [narrow] }), ids())[1]?.verb).toBe('create')
})

it('removes the objects from the group, and deletes unused ones', () => {
  const blocked = {
    ...client,
    blocked_by: [
      { object_id: 'a', group_id: 'g', rule_id: 'r' },
      { object_id: 'b', group_id: 'g', rule_id: 'r' },
      { object_id: 'c', group_id: null, rule_id: 'own' },
    ],
  } as unknown as Client
  const groups = [{ id: 'g', name: 'Blocked clients', members: ['z', 'a', 'b'] }]
  const usage = [
    { id: 'a', used_by: [{ id: 'g' }] },
    { id: 'b', used_by: [{ id: 'g' }, { id: 'some rule' }] },
  ]
  expect(unblockOperations(blocked, groups as never, usage as never)).toEqual([
    { kind: 'firewall.address-group', verb: 'update', id: 'g', body: { members: ['z'] } },
    { kind: 'firewall.address-object', verb: 'delete', id: 'a' },
  ])
})
