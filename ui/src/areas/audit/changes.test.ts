import { expect, it } from 'vitest'
import type { AuditEntry } from '../../api/types'
import { whatChanged, yesterday } from './changes'

let number = 0
const entry = (action: string, subject: string, details?: unknown, actor = 'ann@example.net') =>
  ({
    id: String(++number),
    created_at: '2026-03-01T12:00:00Z',
    action,
    subject,
    actor,
    details,
    node_id: '',
    request_id: '',
  }) as AuditEntry
const change = (id: string, fields: Record<string, [unknown, unknown]>) => ({ id, fields })

it('adds up the changes of a thing, and leaves out unchanged fields', () => {
  const [thing, ...others] = whatChanged([
    entry(
      'ntp.pool.update',
      'b.example',
      change('1', { iburst: [true, false], address: ['a.example', 'b.example'] }),
      'bob',
    ),
    entry('ntp.pool.update', 'a.example', change('1', { iburst: [false, true], minpoll: [6, 7] })),
  ])
  expect(others).toEqual([])
  expect(thing).toMatchObject({
    kind: 'ntp.pool',
    subject: 'b.example',
    fate: 'changed',
    actors: ['bob', 'ann@example.net'],
  })
  expect(thing?.changes).toEqual([
    { field: 'minpoll', before: 6, after: 7 },
    { field: 'address', before: 'a.example', after: 'b.example' },
  ])
  expect(thing?.entries).toHaveLength(2)
})

it('knows what was created, deleted, or both', () => {
  const things = whatChanged([
    entry('dns.zone.delete', 'old', change('1', { name: ['old', null] })),
    entry('dns.zone.delete', 'brief', change('2', { name: ['brief', null] })),
    entry('dns.zone.create', 'brief', change('2', { name: [null, 'brief'] })),
    entry('dns.zone.update', 'new', change('3', { active: [true, false] })),
    entry('dns.zone.create', 'new', change('3', { name: [null, 'new'], active: [null, true] })),
  ])
  expect(things.map(({ subject, fate }) => [subject, fate])).toEqual([
    ['old', 'deleted'],
    ['brief', 'passing'],
    ['new', 'created'],
  ])
  expect(things[2]?.changes).toEqual([
    { field: 'name', before: null, after: 'new' },
    { field: 'active', before: null, after: false },
  ])
})

it('leaves out entries that change nothing, and changes that were reverted', () => {
  expect(
    whatChanged([
      entry('auth.login.success', 'ann@example.net'),
      entry('ntp.pool.update', 'a', change('1', { iburst: [true, false] })),
      entry('ntp.pool.update', 'a', change('1', { iburst: [false, true] })),
    ]),
  ).toEqual([])
})

it('starts yesterday at midnight', () => {
  expect(yesterday(new Date(2026, 2, 1, 15, 30))).toEqual(new Date(2026, 1, 28))
})
