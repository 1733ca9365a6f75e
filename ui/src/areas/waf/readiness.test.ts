import { expect, test } from 'vitest'
import { daysSince, matchedOf, readinessOf } from './readiness'

const now = Date.parse('2026-11-16T12:00:00Z')
const quiet = { days: 7, since: '2026-11-01T00:00:00Z', requests: 0, clients: 0, rules: [], quiet: true }

test('a domain is ready after a quiet week', () => {
  expect(readinessOf(quiet, true, now)).toBe('ready')
  expect(readinessOf({ ...quiet, since: '2026-11-09T12:00:01Z' }, true, now)).toBe('young')
  expect(readinessOf({ ...quiet, since: null }, true, now)).toBe('young')
})

test('silence of an unreachable agent is not quiet, and noise is noise', () => {
  expect(readinessOf(quiet, false, now)).toBe('unknown')
  expect(readinessOf({ ...quiet, quiet: false }, true, now)).toBe('noisy')
  expect(readinessOf({ ...quiet, quiet: false }, false, now)).toBe('noisy')
})

test('days are whole', () => {
  expect(daysSince('2026-11-13T13:00:00Z', now)).toBe(2)
  expect(daysSince(null, now)).toBe(0)
})

const counted = (id: string, requests: number) => ({ name: id, domain_id: id, records: requests, requests })

test('a domain that is not listed had no matches, or at most as many as the last one listed', () => {
  expect(matchedOf([counted('a', 5)], 'a')).toEqual({ requests: 5, exact: true })
  expect(matchedOf([counted('a', 5)], 'b')).toEqual({ requests: 0, exact: true })
  const ten = Array.from({ length: 10 }, (_, index) => counted(`d${index}`, 20 - index))
  expect(matchedOf(ten, 'b')).toEqual({ requests: 11, exact: false })
})
