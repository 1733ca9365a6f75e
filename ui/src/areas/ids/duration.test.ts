import { expect, test } from 'vitest'
import { durationOf, secondsOf } from './duration'

test('durations are read and written', () => {
  for (const [text, seconds] of [
    ['90s', 90],
    ['90m', 5400],
    ['4h', 14_400],
    ['7d', 604_800],
  ] as const) {
    expect(secondsOf(text)).toBe(seconds)
    expect(durationOf(seconds)).toBe(text)
  }
  expect(secondsOf('168h')).toBe(604_800)
})

test('other texts are not durations', () => {
  expect(secondsOf('')).toBeNull()
  expect(secondsOf('forever')).toBeNull()
})
