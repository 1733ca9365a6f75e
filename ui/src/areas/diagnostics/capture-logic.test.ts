import { expect, test } from 'vitest'
import { captureBody, fileName, newCapture, packetsIn } from './capture-logic'

test('empty fields are not sent', () => {
  expect(captureBody({ ...newCapture, interface: 'lan0' })).toEqual({
    interface: 'lan0',
    seconds: 30,
    packets: 10_000,
    bytes: 10_485_760,
  })
  const all = { ...newCapture, interface: 'lan0', protocol: 'tcp', host: '192.0.2.1', port: 443 } as const
  expect(captureBody(all)).toMatchObject({ protocol: 'tcp', host: '192.0.2.1', port: 443 })
  expect(captureBody({ ...all, protocol: 'icmp' })).not.toHaveProperty('port')
})

test('a file is named after the interface and the time', () => {
  expect(fileName('lan0', new Date(2026, 0, 2, 3, 4, 5))).toBe('lan0-20260102-030405.pcap')
})

test('complete packets are counted', () => {
  const file = new Uint8Array(24 + 2 * (16 + 60))
  const view = new DataView(file.buffer)
  view.setUint32(0, 0xa1b2c3d4, true)
  view.setUint32(24 + 8, 60, true)
  view.setUint32(24 + 76 + 8, 60, true)
  expect(packetsIn(file)).toBe(2)
  expect(packetsIn(file.subarray(0, file.length - 1))).toBe(1)
  expect(packetsIn(file.subarray(0, 24))).toBe(0)
  expect(packetsIn(new Uint8Array())).toBe(0)
})
