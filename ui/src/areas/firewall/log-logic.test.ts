import { expect, it } from 'vitest'
import type { FirewallService, LogEvent, Zone } from '../../api/types'
import { addressNames, draftOf, logQuery, place, questionOf, serviceOfEvent } from './log-logic'

const service = (id: string, protocol: FirewallService['protocol'], start: number | null, end: number | null = null) =>
  ({ id, name: id, protocol, port_start: start, port_end: end }) as FirewallService
const services = [
  service('all-tcp', 'tcp', 1, 65_535),
  service('high', 'tcp', 8000, 9000),
  service('https', 'tcp', 443),
  service('dns', 'tcp+udp', 53),
  service('ping', 'icmp', null),
]
const zones = [
  { id: 'z1', name: 'lan' },
  { id: 'z2', name: 'wan' },
] as Zone[]
const usage = new Map([
  ['z1', [{ kind: 'network.interface', id: 'i1', name: 'lan0' }]],
  ['z2', [{ kind: 'network.interface', id: 'i2', name: 'wan0' }]],
])
const event: LogEvent = {
  timestamp: '2026-01-01T00:00:00Z',
  action: 'drop',
  proto: 'tcp',
  source: '10.0.0.2',
  source_port: 40_000,
  destination: '192.0.2.1',
  destination_port: 443,
  interface: 'lan0',
  size: 60,
}

it("takes only the gateway's filters from the URL", () => {
  expect(logQuery({ src: '10.0.0.0/8', q: 'x', sort: 'at', action: undefined })).toEqual({ src: '10.0.0.0/8', q: 'x' })
})

it('names addresses after their clients, else after their objects', () => {
  const clients = [
    { name: 'printer', addresses: [{ address: '10.0.0.2' }, { address: '2001:db8::2' }] },
    { name: '', addresses: [{ address: '10.0.0.3' }] },
  ]
  const objects = [
    { name: 'Printer', kind: 'host', value: '10.0.0.2' },
    { name: 'Shop', kind: 'host', value: '10.0.0.5' },
    { name: 'Office', kind: 'network', value: '10.0.0.0/24' },
  ]
  const names = addressNames(clients as never, objects as never)
  expect(['10.0.0.2', '2001:db8::2', '10.0.0.3', '10.0.0.5', '10.0.0.0/24'].map((one) => names.get(one))).toEqual([
    'printer',
    'printer',
    undefined,
    'Shop',
    undefined,
  ])
})

it('finds the narrowest service of an event', () => {
  const at = (proto: string, port?: number) => serviceOfEvent({ ...event, proto, destination_port: port }, services)?.id
  expect(at('tcp', 443)).toBe('https')
  expect(at('tcp', 8444)).toBe('high')
  expect(at('tcp', 22)).toBe('all-tcp')
  expect(at('udp', 53)).toBe('dns')
  expect(at('icmp')).toBe('ping')
  expect(at('udp', 443)).toBeUndefined()
})

it('drafts a rule to the gateway, and one through it', () => {
  expect(draftOf(event, { zones, services, usage })).toMatchObject({
    src_zone: 'lan',
    src_cidr: '10.0.0.2/32',
    dst_zone: 'self',
    dst_cidr: '192.0.2.1/32',
    service_object_id: 'https',
    action: 'accept',
  })
  const through = { ...event, source: '2001:db8::2', out_interface: 'wan0', interface: 'other' }
  expect(draftOf(through, { zones, services, usage })).toMatchObject({
    src_zone: 'any',
    src_cidr: '2001:db8::2/128',
    dst_zone: 'wan',
  })
})

it("asks about an event's packet", () => {
  expect(questionOf(event)).toEqual({
    in: 'interface:lan0',
    source: '10.0.0.2',
    destination: '192.0.2.1',
    protocol: 'tcp',
    source_port: '40000',
    destination_port: '443',
  })
})

it('writes an address with its port', () => {
  expect(place('10.0.0.1', 80)).toBe('10.0.0.1:80')
  expect(place('2001:db8::1', 80)).toBe('[2001:db8::1]:80')
  expect(place('10.0.0.1', undefined)).toBe('10.0.0.1')
})
