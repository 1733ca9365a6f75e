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

describe('the start of waiting for a job', () => {
  it('survives a reload, and restarts with the next job', () => {
    expect(firstSeen('upgrade', 'a', sessionStorage, 1000)).toBe(1000)
    expect(firstSeen('upgrade', 'a', sessionStorage, 5000)).toBe(1000)
    expect(firstSeen('upgrade', 'b', sessionStorage, 6000)).toBe(6000)
    expect(firstSeen('upgrade', 'b', sessionStorage, 7000)).toBe(6000)
  })
  it('is the page load if nothing can be stored', () => {
    expect(firstSeen('upgrade', 'a', broken, 1000)).toBe(1000)
  })
})
