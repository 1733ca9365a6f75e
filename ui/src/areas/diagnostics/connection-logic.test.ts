import { expect, test } from 'vitest'
import type { Connection } from '../../api/types'
import { connectionQuery, end, isFiltered, nameOf, rewritten } from './connection-logic'

const connection: Connection = {
  id: 'x',
  protocol: 'tcp',
  state: 'established',
  source: '10.10.0.2',
  source_port: 5000,
  destination: '198.51.100.2',
  destination_port: 443,
  nat: 'source',
  seen_source: '198.51.100.1',
  seen_source_port: 6000,
  seen_destination: '198.51.100.2',
  seen_destination_port: 443,
  seconds: 60,
  assured: true,
  sent_bytes: 0,
  sent_packets: 0,
  received_bytes: 0,
  received_packets: 0,
}

test('only filters are sent', () => {
  const search = { source: '10.0.0.0/8', state: 'established', sort: 'x', after: 'abc', port: '' }
  expect(connectionQuery(search)).toEqual({ source: '10.0.0.0/8', state: 'established', after: 'abc' })
  expect(isFiltered({ after: 'abc', sort: 'x' })).toBe(false)
  expect(isFiltered({ port: '22' })).toBe(true)
})

test('addresses have their ports', () => {
  expect(end('2001:db8::1', 443)).toBe('[2001:db8::1]:443')
  expect(end('192.0.2.1', null)).toBe('192.0.2.1')
  expect(nameOf(connection)).toBe('tcp 10.10.0.2:5000 → 198.51.100.2:443')
})

test('rewritten addresses are shown', () => {
  expect(rewritten(connection)).toEqual({ source: '198.51.100.1:6000', destination: null })
  expect(rewritten({ ...connection, nat: 'destination', seen_destination: '10.10.0.9' })).toEqual({
    source: null,
    destination: '10.10.0.9:443',
  })
  expect(rewritten({ ...connection, nat: '' })).toBeNull()
})
