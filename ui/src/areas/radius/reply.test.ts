import { expect, it } from 'vitest'
import { fieldOf } from '../../kit/form/form-errors'
import { replyFields, userShape } from './reply'

const user = { name: 'anna', active: true }

it('converts between attributes and fields', () => {
  const stored = {
    ...user,
    reply_attributes: {
      'Framed-IP-Address': '10.10.0.9',
      'Session-Timeout': 3600,
      'Tunnel-Type': 'VLAN',
      'Tunnel-Medium-Type': 'IEEE-802',
      'Tunnel-Private-Group-Id': '20',
    },
  }
  const read = userShape.read(stored)
  expect(read).toMatchObject({ framed_ip: '10.10.0.9', session_timeout: 3600, vlan: 20 })
  const { reply_attributes: _, ...fields } = read
  expect(userShape.write(fields)).toEqual({
    ...user,
    reply_attributes: {
      'Framed-IP-Address': '10.10.0.9',
      'Session-Timeout': 3600,
      'Tunnel-Private-Group-Id': '20',
    },
  })
})

it('sends no attributes if the fields are empty', () => {
  const read = userShape.read({ ...user, reply_attributes: null })
  expect(read).toMatchObject({ framed_ip: '', session_timeout: null, vlan: null })
  expect(userShape.write({ ...user, framed_ip: '', session_timeout: null, vlan: null })).toEqual({
    ...user,
    reply_attributes: null,
  })
})

it('shows errors about attributes at their fields', () => {
  const covered = Object.fromEntries(replyFields.flatMap(({ name, covers = [] }) => covers.map((path) => [path, name])))
  const known = replyFields.map(({ name }) => name)
  expect(fieldOf('reply_attributes.Framed-IP-Address', known, covered)).toBe('framed_ip')
  expect(fieldOf('operations.0.body.reply_attributes.Tunnel-Private-Group-Id', known, covered)).toBe('vlan')
})
