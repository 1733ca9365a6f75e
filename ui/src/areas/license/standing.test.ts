import { describe, expect, it } from 'vitest'
import { needsCare, shareOf, standingOf } from './standing'

describe('the state of a license', () => {
  it.each([
    ['active', 400, 'active', false],
    ['active', 31, 'active', false],
    ['active', 30, 'expiring', true],
    ['active', 0, 'expiring', true],
    ['expired', 0, 'expired', true],
    ['invalid', null, 'invalid', true],
    // Not valid yet: its days left do not matter.
    ['invalid', 400, 'invalid', true],
    ['trial', null, 'trial', false],
  ] as const)('%s with %s days left is %s', (status, days_left, standing, care) => {
    expect(standingOf({ status, days_left })).toBe(standing)
    expect(needsCare({ status, days_left })).toBe(care)
  })
})

describe('the used share of a limit', () => {
  it.each([
    [10, 5, 0.5],
    [10, 10, 1],
    [10, 12, 1],
    [0, 0, 0],
    [0, 1, 1],
    [null, 5, null],
    [10, null, null],
    [null, null, null],
  ])('%s of %s', (limit, used, share) => {
    expect(shareOf({ limit, used })).toBe(share)
  })
})
