import { expect, test } from 'vitest'
import { settingsShape } from './settings-form'

const stored = {
  enabled: true,
  blocking: false,
  ban_duration: '4h',
  sources: { ssh: true, haproxy: false, packet_filter: true, waf: false },
  allow_list: [{ cidr: '203.0.113.0/24', note: 'Office' }],
}

test('unchanged settings are written as they were read', () => {
  expect(settingsShape.write(settingsShape.read(stored))).toEqual(stored)
})

test('each log has its switch, and an empty row is ignored', () => {
  const form = settingsShape.read(stored)
  expect(form).toMatchObject({ ssh: true, haproxy: false, ban_duration: 14_400 })
  const written = settingsShape.write({ ...form, waf: true, allow_list: [{ cidr: '', note: '' }] })
  expect(written).toMatchObject({
    sources: { ssh: true, haproxy: false, packet_filter: true, waf: true },
    allow_list: [],
  })
})
