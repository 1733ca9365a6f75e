import { expect, it, vi } from 'vitest'
import type { Rule } from '../../api/types'
import { selectRows } from '../../kit/list/list-logic'
import { Book, type Lists, portsOf, serviceOf, sideOf } from './book'
import { ruleFields, ruleShape, startOf, typedService } from './rule-form'
import { ruleGuard } from './rule-guard'
import { labelsOf, ruleText } from './rule-text'
import { opensInside } from './wide-open'

const made = { created_at: '', updated_at: '', description: '' }
const lists: Lists = {
  zones: [],
  addresses: [
    { ...made, id: 'o1', name: 'shop', kind: 'host', value: '10.0.0.5', resolved: [] },
    { ...made, id: 'o2', name: 'mirror', kind: 'fqdn', value: 'deb.example.com', resolved: ['192.0.2.7'] },
  ],
  addressGroups: [{ ...made, id: 'g1', name: 'servers', members: ['o1', 'o2'] }],
  services: [
    { ...made, id: 's1', name: 'HTTPS', protocol: 'tcp', port_start: 443, port_end: null, builtin: true },
    { ...made, id: 's2', name: 'Voice', protocol: 'udp', port_start: 5000, port_end: 5010, builtin: false },
  ],
  serviceGroups: [{ ...made, id: 'sg1', name: 'Web', members: ['s1'], builtin: true }],
}
const book = new Book(lists)
const rule = (part: Partial<Rule>): Rule => ({
  ...(startOf(undefined) as unknown as Rule),
  src_kind: 'any',
  dst_kind: 'any',
  enabled: true,
  id: 'r1',
  ...part,
})

const found = (one: Rule, q: string) =>
  selectRows([one], { columns: [], filters: [], text: (row) => ruleText(row, book), search: { q } }).length === 1

it('finds a rule by its own texts, and by what its names stand for', () => {
  const one = rule({
    name: 'Customers',
    note: 'asked for by Mia',
    labels: ['front'],
    src_cidr: '198.51.100.0/24',
    dst_group_id: 'g1',
    service_group_id: 'sg1',
  })
  for (const q of [
    'customers',
    'mia',
    'front',
    '198.51.100',
    'servers',
    'shop',
    '10.0.0.5',
    '192.0.2.7',
    '443',
    'r1',
    'g1',
  ])
    expect(found(one, q), q).toBe(true)
  expect(found(one, 'customers 443')).toBe(true)
  expect(found(one, 'voice')).toBe(false)
})

it('has one field for a remark, and the other one if a rule has it', () => {
  const fields = ruleFields(book, [], ((key: string) => key) as never)
  const shown = (stored: object) => fields.filter(({ when }) => when?.({ note: '' }, stored as never) ?? true)
  const remarks = (stored: object) => shown(stored).filter(({ name }) => ['comment', 'note'].includes(name))
  expect(remarks({ note: '' }).map(({ name }) => name)).toEqual(['comment'])
  expect(remarks({ note: 'asked for by Mia' }).map(({ name }) => name)).toEqual(['comment', 'note'])
})

it('shows names', () => {
  expect(sideOf(rule({ src_object_id: 'o1' }), 'src', book)).toBe('shop')
  expect(sideOf(rule({ dst_cidr: '10.0.0.0/8' }), 'dst', book)).toBe('10.0.0.0/8')
  expect(sideOf(rule({}), 'dst', book)).toBeUndefined()
  expect(serviceOf(rule({ service_group_id: 'sg1' }), book)).toBe('Web')
  expect(lists.services.map(portsOf)).toEqual(['tcp 443', 'udp 5000–5010'])
  expect(labelsOf([{ labels: ['b', 'a'] }, { labels: ['a'] }])).toEqual(['a', 'b'])
})

it('sends what the form means, and clears the rest', () => {
  const write = ruleShape.write(book)
  const start = { src_kind: 'cidr', src_cidr: '10.0.0.0/8', src_object_id: 'o1', dst_kind: 'any', dst_group_id: 'g1' }
  expect(write({ ...start, service: 'sg1' })).toEqual({
    src_kind: 'cidr',
    src_cidr: '10.0.0.0/8',
    src_object_id: null,
    src_group_id: null,
    dst_kind: 'any',
    dst_object_id: null,
    dst_group_id: null,
    dst_cidr: null,
    service_object_id: null,
    service_group_id: 'sg1',
  })
  expect(write({ ...start, service: 's1' })).toMatchObject({ service_object_id: 's1', service_group_id: null })
  expect(write({ ...start, service: 'any' })).toMatchObject({ service_object_id: null, service_group_id: null })
  expect(ruleShape.read({ service_object_id: null, service_group_id: 'sg1' }).service).toBe('sg1')
  expect(ruleShape.read({ service_object_id: null, service_group_id: null }).service).toBe('any')
})

it('accepts nothing until zones and service are chosen', () => {
  const start = ruleShape.read(startOf(undefined))
  const needed = ruleFields(book, [], ((key: string) => key) as never).filter(({ required }) => required)
  for (const name of ['src_zone', 'dst_zone', 'service']) {
    expect(start[name], name).toBeNull()
    expect(needed.map((field) => field.name)).toContain(name)
  }
})

it('opens the LAN if it lets the whole internet reach part of it', () => {
  const open = {
    action: 'accept',
    enabled: true,
    src_zone: 'wan',
    src_kind: 'any',
    dst_zone: 'lan',
  } as const
  expect(opensInside(open)).toBe(true)
  expect(opensInside({ ...open, src_zone: 'any', dst_zone: 'any' })).toBe(true)
  const narrower: Partial<Rule>[] = [
    { action: 'drop' },
    { enabled: false },
    { src_zone: 'lan' },
    { dst_zone: 'self' },
    { dst_zone: 'wan' },
    { src_kind: 'cidr' },
  ]
  for (const part of narrower) expect(opensInside({ ...open, ...part }), JSON.stringify(part)).toBe(false)
})

it('asks before it opens the LAN, but not again afterwards', async () => {
  const open = { src_zone: 'wan', dst_zone: 'lan', enabled: true, action: 'accept' } as const
  const asked = async (before: Rule | undefined, body: Partial<Rule>) =>
    (await ruleGuard(before ? [before] : [])([
      { kind: 'firewall.rule', verb: before ? 'update' : 'create', id: before?.id, body },
    ])) !== null
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('no network')))
  expect(await asked(undefined, rule(open))).toBe(true)
  expect(await asked(undefined, rule({ ...open, dst_zone: 'wan' }))).toBe(false)
  expect(await asked(rule({ ...open, enabled: false }), { enabled: true })).toBe(true)
  expect(await asked(rule(open), { comment: 'as before' })).toBe(false)
})

it.each([
  ['tcp/8443', { name: 'tcp/8443', protocol: 'tcp', port_start: 8443, port_end: null }],
  ['8443', { name: 'tcp/8443', protocol: 'tcp', port_start: 8443, port_end: null }],
  ['UDP 6000-6100', { name: 'udp/6000-6100', protocol: 'udp', port_start: 6000, port_end: 6100 }],
  ['tcp/0', undefined],
  ['tcp/65536', undefined],
  ['tcp/20-10', undefined],
  ['sctp/80', undefined],
  ['https', undefined],
])('makes a service of %j if it is one', (text, service) => {
  expect(typedService(text)).toEqual(service)
})
