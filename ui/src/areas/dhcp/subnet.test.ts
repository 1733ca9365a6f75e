import { describe, expect, it } from 'vitest'
import { networkOf, propose, rank, serverAt, spellings, usableName } from './subnet'

describe('the proposal for a subnet', () => {
  it.each([
    ['192.168.1.0/24', [], '192.168.1.128', '192.168.1.254', '192.168.1.1'],
    // A host address was typed: its network counts.
    ['192.168.1.77/24', [], '192.168.1.128', '192.168.1.254', '192.168.1.1'],
    ['10.0.0.0/8', [], '10.128.0.0', '10.255.255.254', '10.0.0.1'],
    ['172.16.4.0/22', [], '172.16.6.0', '172.16.7.254', '172.16.4.1'],
    ['10.1.1.0/30', [], '10.1.1.2', '10.1.1.2', '10.1.1.1'],
    // The gateway's own address becomes the default gateway, and stays outside the range.
    ['10.10.0.0/24', ['10.99.0.1', '10.10.0.254'], '10.10.0.1', '10.10.0.127', '10.10.0.254'],
    ['10.10.0.0/24', ['10.10.0.9'], '10.10.0.128', '10.10.0.254', '10.10.0.9'],
    ['10.10.0.0/24', ['2001:db8::1'], '10.10.0.128', '10.10.0.254', '10.10.0.1'],
  ])('%s with %j: %s to %s, by %s', (cidr, own, range_start, range_end, gateway) => {
    expect(propose(cidr, own)).toEqual({ range_start, range_end, gateway })
  })

  it.each([
    '',
    '192.168.1.',
    '192.168.1.0',
    '192.168.1.0/',
    '192.168.1.0/33',
    '256.1.1.0/24',
    '10.0.0.1/32',
    '2001:db8::/64',
  ])('is empty while it is %j', (cidr) => {
    expect(propose(cidr, [])).toEqual({ range_start: '', range_end: '', gateway: '' })
  })
})

it('announces the gateway for services that it answers', () => {
  const own = ['10.10.0.1', '2001:db8::1']
  expect(serverAt('10.10.0.1', own, ['127.0.0.1', '10.10.0.1'])).toEqual(['10.10.0.1'])
  expect(serverAt('10.10.0.1', own, ['0.0.0.0'])).toEqual(['10.10.0.1'])
  expect(serverAt('10.10.0.1', own, ['127.0.0.1'])).toEqual([])
  expect(serverAt('10.10.0.9', own, ['0.0.0.0'])).toEqual([])
})

it('finds the network of an address', () => {
  expect(networkOf('10.20.3.7/22')).toBe('10.20.0.0/22')
  expect(networkOf('2001:db8::1/64')).toBe('')
})

it('ranks addresses by number', () => {
  expect(['10.0.0.10', '10.0.0.9', '9.255.0.1'].sort((a, b) => rank(a) - rank(b))).toEqual([
    '9.255.0.1',
    '10.0.0.9',
    '10.0.0.10',
  ])
})

it('spells a MAC address in every way that people search for', () => {
  expect(spellings('52:54:00:12:34:56')).toEqual([
    '52:54:00:12:34:56',
    '52-54-00-12-34-56',
    '525400123456',
    '5254.0012.3456',
  ])
})

it('takes only a valid name from a client', () => {
  expect(usableName('anna-laptop')).toBe('anna-laptop')
  expect(usableName('printer.corp.example.net')).toBe('printer.corp.example.net')
  for (const name of ['', '<b>x</b>', 'a b', '-x', 'x-', 'ä', 'a..b']) expect(usableName(name)).toBe('')
})
