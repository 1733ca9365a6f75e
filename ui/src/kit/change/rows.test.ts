import { expect, it } from 'vitest'
import { deedOf, plannedDeed } from './rows'

it('leaves out empty fields', () => {
  const row = {
    kind: 'ntp.pool',
    id: '1',
    name: 'a',
    verb: 'create' as const,
    usual: ['iburst'],
    secrets: [],
    hidden: false,
  }
  const fields = { id: [null, '1'], address: [null, 'a.example'], note: [null, ''], iburst: [null, false] }
  const deed = deedOf({ ...row, fields })
  expect(deed.changes).toEqual([
    { field: 'address', before: null, after: 'a.example' },
    { field: 'iburst', before: null, after: false },
  ])
  expect(deed.usual).toEqual(['iburst'])
  const planned = { ...row, verb: 'update' as const, before: { name: 'a', on: true }, after: { name: 'a', on: false } }
  expect(plannedDeed(planned).changes).toEqual([{ field: 'on', before: true, after: false }])
})
