import { describe, expect, it } from 'vitest'
import { holds, parsePrefix, textOf } from './prefix'

describe('a network', () => {
  it.each([
    ['10.8.0.1/24', '10.8.0.0/24'],
    ['255.255.255.255/1', '128.0.0.0/1'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['fd00:8::1/64', 'fd00:8::/64'],
    ['2001:db8:0:0:1::9/128', '2001:db8::1:0:0:9/128'],
    ['::/0', '::/0'],
    ['FD00::FFFF/113', 'fd00::8000/113'],
  ])('of %s is %s', (bound, network) => {
    const parsed = parsePrefix(bound)
    expect(parsed && textOf(parsed)).toBe(network)
  })

  it.each(['', '10.8.0.1', '10.8.0.1/33', '10.8.0.256/24', '10.8.0.1/x', 'fd00::1/129', 'fd00:::1/64', 'example/8'])(
    'is not %j',
    (text) => expect(parsePrefix(text)).toBeNull(),
  )

  it.each([
    ['10.0.0.0/8', '10.8.0.0/24', true],
    ['10.8.0.0/24', '10.8.0.0/24', true],
    ['10.8.0.0/25', '10.8.0.0/24', false],
    ['10.9.0.0/24', '10.8.0.0/24', false],
    ['0.0.0.0/0', 'fd00:8::/64', false],
    ['::/0', 'fd00:8::/64', true],
    ['fd00::/16', 'fd00:8::/64', true],
    ['fd00:8::/65', 'fd00:8::/64', false],
  ])('%s around %s: %s', (outer, inner, around) => {
    const [a, b] = [parsePrefix(outer), parsePrefix(inner)]
    expect(a && b && holds(a, b)).toBe(around)
  })
})
