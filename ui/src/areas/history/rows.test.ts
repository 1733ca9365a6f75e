// biome-ignore-all lint/suspicious/noThenProperty: the API calls it so, and it is no function.
import { expect, it } from 'vitest'
import { chosen, deedOf, plannedDeed, undecided, waysOf } from './rows'

it('leaves out what nobody looks for', () => {
  const row = {
    kind: 'ntp.pool',
    id: '1',
    name: 'a',
    verb: 'create' as const,
    usual: ['iburst'],
    secrets: [],
    hidden: false,
  }
  const fields = { id: [null, '1'], address: [null, 'a.example'], note: [null, ''], iburst: [null, false] }
  const deed = deedOf({ ...row, fields })
  expect(deed.changes).toEqual([
    { field: 'address', before: null, after: 'a.example' },
    { field: 'iburst', before: null, after: false },
  ])
  expect(deed.usual).toEqual(['iburst'])
  const planned = { ...row, verb: 'update' as const, before: { name: 'a', on: true }, after: { name: 'a', on: false } }
  expect(plannedDeed(planned).changes).toEqual([{ field: 'on', before: true, after: false }])
})

const conflict = (id: string, field: string, taken: '' | 'then' | 'now' = '') => ({
  kind: 'ntp.pool',
  id,
  field,
  taken,
  name: 'a',
  then: 1,
  now: 2,
  actor: 'bob',
  at: null,
})

it('keeps one choice per conflict', () => {
  const first = chosen([], conflict('1', 'note'), 'then')
  const second = chosen(first, conflict('1', 'iburst'), 'now')
  expect(chosen(second, conflict('1', 'note'), 'now')).toEqual([
    { kind: 'ntp.pool', id: '1', field: 'iburst', take: 'now' },
    { kind: 'ntp.pool', id: '1', field: 'note', take: 'now' },
  ])
  expect(undecided([conflict('1', 'note'), conflict('1', 'iburst', 'now')])).toBe(1)
})

it('knows what a conflict is about', () => {
  expect(waysOf(conflict('1', 'note'))).toBe('field')
  expect(waysOf({ field: '', then: null })).toBe('delete')
  expect(waysOf({ field: '', then: { name: 'a' } })).toBe('restore')
})
