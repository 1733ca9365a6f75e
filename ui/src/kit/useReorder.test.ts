import { expect, it } from 'vitest'
import { moved, within } from './useReorder'

it('puts one id at another place', () => {
  const ids = ['a', 'b', 'c', 'd']
  expect(moved(ids, 0, 2)).toEqual(['b', 'c', 'a', 'd'])
  expect(moved(ids, 3, 0)).toEqual(['d', 'a', 'b', 'c'])
  expect(moved(ids, 1, 3)).toEqual(['a', 'c', 'd', 'b'])
  expect(moved(ids, 2, 2)).toEqual(ids)
})

it('puts a part into another order and leaves the rest where it is', () => {
  expect(within(['a', 'x', 'b', 'y', 'c'], ['c', 'a', 'b'])).toEqual(['c', 'x', 'a', 'y', 'b'])
})
