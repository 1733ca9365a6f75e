import { expect, it } from 'vitest'
import { periods } from './period-logic'

it('offers periods', () => {
  const now = new Date(2026, 2, 1, 12, 30)
  const ago = (at: number | null) => at && now.getTime() - at
  expect(periods(now).map(({ name, from, to }) => [name, ago(from), ago(to)])).toEqual([
    ['hour', 3_600_000, null],
    ['today', 45_000_000, null],
    ['yesterday', 131_400_000, 45_000_000],
    ['week', 604_800_000, null],
    ['all', null, null],
  ])
})
