import { expect, it } from 'vitest'
import type { AuditEntry } from '../../api/types'
import { justAfter, newerEntries } from './live-entries'

const entry = (id: string, second: number, subject = ''): AuditEntry => ({
  id,
  created_at: `2026-01-01T00:00:0${second}Z`,
  actor: 'Ada@example.com',
  action: 'ntp.pool.create',
  subject,
  node_id: 'n',
  request_id: '',
})
const ids = (entries: AuditEntry[]) => entries.map((one) => one.id)

it('puts entries that arrived since the search on top, newest first', () => {
  const live = [entry('a', 1), entry('b', 2), entry('c', 3), entry('d', 4)]
  expect(ids(newerEntries(live, [entry('b', 2), entry('a', 1)], {}))).toEqual(['d', 'c'])
})

it('takes only entries that the search would have found', () => {
  const live = [entry('a', 1, 'Time.example.com'), entry('b', 2, 'other')]
  expect(ids(newerEntries(live, [], { subject: 'time', actor: 'ada' }))).toEqual(['a'])
  expect(ids(newerEntries(live, [], { from: '2026-01-01T00:00:02Z' }))).toEqual(['b'])
})

it('computes the next id', () => {
  expect(justAfter('01a1dd2e-328f-7676-8a59-2a0acebaad9e')).toBe('01a1dd2e-328f-7676-8a59-2a0acebaad9f')
  expect(justAfter('01a1dd2e-328f-7676-8a59-ffffffffffff')).toBe('01a1dd2e-328f-7676-8a5a-000000000000')
})
