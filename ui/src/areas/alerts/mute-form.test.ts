import { expect, it } from 'vitest'
import { muteShape } from './mute-form'

it('mutes from now on for the chosen time', () => {
  const shape = muteShape(() => Date.parse('2026-01-01T00:00:00Z'))
  expect(shape.write({ kind: 'system.disk', reason: '', hours: '8' })).toEqual({
    kind: 'system.disk',
    reason: '',
    until: '2026-01-01T08:00:00.000Z',
  })
  expect(shape.read({ kind: 'system.disk' }).hours).toBe('24')
})
