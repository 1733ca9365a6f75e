import { expect, it } from 'vitest'
import { scales, unitOf } from './quantity-units'

it('finds the largest unit without a fraction', () => {
  const size = (amount: number | null) => scales.size[unitOf('size', amount)]?.[0]
  expect(size(10 * 1024 ** 2)).toBe('MiB')
  expect(size(1536)).toBe('B')
  expect(size(2048)).toBe('KiB')
  expect(size(0)).toBe('MiB')
  const span = (amount: number) => scales.span[unitOf('span', amount)]?.[0]
  expect(span(31_536_000)).toBe('d')
  expect(span(90)).toBe('s')
  expect(span(120)).toBe('min')
})
