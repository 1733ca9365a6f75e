import { expect, it } from 'vitest'
import { gapAt, gapOf, placeIn, scrollNear } from './place'

it('knows the index of a row from the gap that it is put into', () => {
  // The second of four rows: before the first, where it is, after the third, at the end.
  expect([0, 1, 2, 3, 4].map((gap) => placeIn(gap, 1))).toEqual([0, 1, 1, 2, 3])
  for (const place of [0, 1, 2, 3]) expect(placeIn(gapOf(place, 1), 1)).toBe(place)
})

it('takes the nearer edge of a row', () => {
  const box = { top: 100, height: 40 }
  expect(gapAt(5, box, 119)).toBe(5)
  expect(gapAt(5, box, 121)).toBe(6)
})

it('scrolls near the edges, faster the nearer', () => {
  expect(scrollNear(300, 0, 600)).toBe(0)
  expect(scrollNear(20, 0, 600)).toBeLessThan(0)
  expect(scrollNear(595, 0, 600)).toBeGreaterThan(scrollNear(570, 0, 600))
})
