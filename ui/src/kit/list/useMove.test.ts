import { expect, it } from 'vitest'
import { moved, rowBefore } from './useMove'

const ids = ['a', 'b', 'c', 'd']
const rows = ids.map((id) => ({ id }))
const order = (id: string, after: string | null) => moved(rows, id, after).map((row) => row.id)

it('moves a row behind another, or to the front', () => {
  expect(order('a', 'c')).toEqual(['b', 'c', 'a', 'd'])
  expect(order('d', null)).toEqual(['d', 'a', 'b', 'c'])
  expect(order('b', 'd')).toEqual(['a', 'c', 'd', 'b'])
  expect(order('c', 'b')).toEqual(ids)
})

it('finds the row before an index', () => {
  for (const [place, after] of [null, 'a', 'c', 'd'].entries()) expect(rowBefore(ids, ids, 'b', place)).toBe(after)
  expect(rowBefore(['a'], ['a'], 'a', 0)).toBeNull()
})

it('keeps a row of a part within the part', () => {
  const all = ['x', 'a', 'y', 'b', 'c', 'z']
  const part = ['a', 'b', 'c']
  expect(rowBefore(all, part, 'c', 0)).toBe('x')
  expect(rowBefore(all, part, 'a', 2)).toBe('c')
  expect(rowBefore(all, part, 'c', 1)).toBe('a')
})
