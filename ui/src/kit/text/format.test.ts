import { expect, it } from 'vitest'
import { bytes, duration, offset, percent, relative } from './format'

it('shows sizes in binary units', () => {
  expect([0, 512, 1536, 8e9, 1e18].map(bytes)).toEqual(['0 B', '512 B', '1.5 KiB', '7.5 GiB', '888 PiB'])
})

it('shows a duration in its two largest units', () => {
  expect([0, 0.4, 59, 61, 3600, 90_000, 864_000].map(duration)).toEqual([
    '0 s',
    '0 s',
    '59 s',
    '1 min 1 s',
    '1 h',
    '1 d 1 h',
    '10 d',
  ])
})

it('shows an offset in a suitable unit', () => {
  expect([2e-8, -1.23e-4, 0.0421, 3].map((value) => offset(value))).toEqual([
    '+20.0 ns',
    '−123 µs',
    '+42.1 ms',
    '+3.00 s',
  ])
})

it('shows a share of nothing as nothing', () => {
  expect(percent(1, 0)).toBe('–')
  expect(percent(1, 3)).toBe('33 %')
})

it('counts from a minute on', () => {
  const now = Date.UTC(2026, 0, 1)
  expect(relative(now - 30_000, now, 'just now')).toBe('just now')
  expect(relative(now - 120_000, now, 'just now')).toBe('2 min ago')
})
