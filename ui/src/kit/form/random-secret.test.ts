import { expect, it } from 'vitest'
import { randomSecret } from './random-secret'

it('makes different secrets of 32 distinguishable letters', () => {
  const made = Array.from({ length: 50 }, randomSecret)
  for (const secret of made) expect(secret).toMatch(/^[a-km-np-z2-9]{32}$/)
  expect(new Set(made).size).toBe(made.length)
})
