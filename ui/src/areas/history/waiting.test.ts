import { expect, it } from 'vitest'
import { aheadOf, secondsLeft } from './waiting'

const by = '2026-03-01T12:01:00Z'
const now = Date.parse('2026-03-01T12:00:00Z')

it("counts down by the gateway's clock", () => {
  expect(secondsLeft(by, now, 0)).toBe(60)
  expect(secondsLeft(by, now + 100, 0)).toBe(60)
  expect(secondsLeft(by, now + 90_000, 0)).toBe(0)
  expect(secondsLeft(by, now, aheadOf('Sun, 01 Mar 2026 12:00:30 GMT', now))).toBe(30)
  expect(secondsLeft(by, now, aheadOf('Sun, 01 Mar 2026 11:59:30 GMT', now))).toBe(90)
})

it('ignores a small difference as latency', () => {
  expect(aheadOf('Sun, 01 Mar 2026 11:59:59 GMT', now)).toBe(0)
  expect(aheadOf(null, now)).toBe(0)
})
