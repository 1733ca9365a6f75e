// biome-ignore-all lint/suspicious/noThenProperty: the API's name, and not a function.
import { expect, it } from 'vitest'
import { chosen, undecided, waysOf } from './conflict-logic'

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
