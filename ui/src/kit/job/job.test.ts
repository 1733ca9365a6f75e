import { beforeEach, describe, expect, it } from 'vitest'
import { firstSeen } from './job'

beforeEach(() => sessionStorage.clear())

const broken = {
  getItem: () => {
    throw new Error('forbidden')
  },
  setItem: () => {
    throw new Error('forbidden')
  },
}

describe('since when a job is waited for', () => {
  it('survives a reload, and begins again with the next one', () => {
    expect(firstSeen('upgrade', 'a', sessionStorage, 1000)).toBe(1000)
    expect(firstSeen('upgrade', 'a', sessionStorage, 5000)).toBe(1000)
    expect(firstSeen('upgrade', 'b', sessionStorage, 6000)).toBe(6000)
    expect(firstSeen('upgrade', 'b', sessionStorage, 7000)).toBe(6000)
  })
  it('begins with the page where nothing can be kept', () => {
    expect(firstSeen('upgrade', 'a', broken, 1000)).toBe(1000)
  })
})
