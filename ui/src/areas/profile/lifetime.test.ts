import { expect, it } from 'vitest'
import { expiryOf } from './lifetime'

it('counts days from now, or never expires', () => {
  const now = Date.parse('2026-01-31T12:00:00Z')
  expect(expiryOf('month', now)).toBe('2026-03-02T12:00:00.000Z')
  expect(expiryOf('year', now)).toBe('2027-01-31T12:00:00.000Z')
  expect(expiryOf('endless', now)).toBeNull()
})
