import { expect, it } from 'vitest'
import { deedsOf, kindName, rowsOf } from './words'

const sum = (kind: string, created: number, updated: number, deleted: number) => ({ kind, created, updated, deleted })

it('describes a change set', () => {
  expect(deedsOf([sum('firewall.rule', 0, 2, 0)])).toBe('2 firewall rules changed')
  expect(deedsOf([sum('firewall.zone', 1, 0, 1)])).toBe('1 zone created, 1 zone deleted')
  expect(deedsOf([sum('dns.settings', 0, 1, 0)])).toBe('DNS settings changed')
  expect(deedsOf([])).toBe('Nothing changed')
})

it('counts what is too much to name', () => {
  const many = ['dns.zone', 'dns.record', 'ntp.pool', 'user', 'radius.user'].map((kind) => sum(kind, 1, 0, 0))
  expect(deedsOf(many)).toBe('1 DNS zone created, 1 DNS record created, 1 NTP server created, 2 more kinds')
})

it('names an unknown kind', () => {
  expect(rowsOf('some.new-kind', 3)).toBe('3 some.new-kind')
  expect(['some.new-kind', 'dns.zone', 'dns.settings'].map(kindName)).toEqual([
    'some.new-kind',
    'DNS zone',
    'DNS settings',
  ])
})
