import { expect, it } from 'vitest'
import { boundedSeconds, usualIntent } from './intent'

it('requires a confirmation for kinds that can cut people off', () => {
  expect(usualIntent('firewall.rule')).toEqual({ reason: '', within: 60 })
  expect(usualIntent('ntp.pool', 'network.route').within).toBe(60)
  expect(usualIntent('ntp.pool').within).toBe(0)
})

it('keeps the time to confirm within the limits', () => {
  expect(['', 'x', 3, 45.4, 9999].map(boundedSeconds)).toEqual([60, 60, 10, 45, 600])
})
