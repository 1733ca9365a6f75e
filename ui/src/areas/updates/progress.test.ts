import { beforeEach, describe, expect, it } from 'vitest'
import { mustReload, standingOf } from './progress'

beforeEach(() => sessionStorage.clear())

const broken = {
  getItem: () => {
    throw new Error('forbidden')
  },
  setItem: () => {
    throw new Error('forbidden')
  },
}

describe('the reload after an upgrade', () => {
  it('happens once for each running version', () => {
    expect(mustReload('1.0.0', '1.0.0', sessionStorage)).toBe(false)
    expect(mustReload('1.0.0', '1.1.0', sessionStorage)).toBe(true)
    expect(mustReload('1.0.0', '1.1.0', sessionStorage)).toBe(false)
    // A downgrade.
    expect(mustReload('1.1.0', '1.0.0', sessionStorage)).toBe(true)
  })
  it.each([
    [undefined, '1.1.0'],
    ['1.0.0', undefined],
  ])('does not happen while a version is unknown: %s, %s', (loaded, serving) => {
    expect(mustReload(loaded, serving, sessionStorage)).toBe(false)
  })
  it('does not happen if it cannot be remembered', () => {
    expect(mustReload('1.0.0', '1.1.0', broken)).toBe(false)
  })
})

it.each([
  ['1', '1', false, false, 'current'],
  ['1', '2', true, false, 'update'],
  ['1', '2', true, true, 'security'],
  ['', '2', false, false, 'notInstalled'],
  ['1', '', false, false, 'unknown'],
  // Packages that an operator holds are not offered.
  ['1', '1', false, true, 'current'],
] as const)('installed %s, available %s: %s %s is %s', (installed, available, upgradable, security, standing) => {
  expect(standingOf({ name: 'x', newer: [], installed, available, upgradable, security })).toBe(standing)
})
