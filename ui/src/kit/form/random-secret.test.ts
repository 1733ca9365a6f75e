import { expect, it } from 'vitest'
import { randomSecret } from './random-secret'

it('makes secrets of 32 unmistakable letters, each another', () => {
  const made = Array.from({ length: 50 }, randomSecret)
  for (const secret of made) expect(secret).toMatch(/^[a-km-np-z2-9]{32}$/)
  expect(new Set(made).size).toBe(made.length)
})
