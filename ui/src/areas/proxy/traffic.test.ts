import { expect, it } from 'vitest'
import { linesOf, rate, windowOf } from './traffic'

const point = (second: number, requests: number) => ({
  at: new Date(second * 1000).toISOString(),
  requests,
  errors: 0,
  bytes_in: 0,
  bytes_out: 0,
  sessions: 0,
})

it('breaks the line where steps are missing', () => {
  const { times, requests } = linesOf({ step_seconds: 10, points: [point(10, 1), point(20, 2), point(60, 3)] })
  expect(times).toEqual([10, 20, 30, 60])
  expect(requests).toEqual([1, 2, null, 3])
})

it('widens the chart as it fills', () => {
  expect(windowOf([])).toBe(300)
  expect(windowOf([1000, 1900])).toBe(900)
  expect(windowOf([0, 9000])).toBe(3600)
})

it('says rates in short', () => {
  expect(rate(0)).toBe('0')
  expect(rate(0.25)).toBe('0.3')
  expect(rate(1234.4)).toBe('1,234')
})
