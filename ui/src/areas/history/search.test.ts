import { expect, it } from 'vitest'
import { isFiltered, searchQuery } from './search'

it('converts the search parameters to a query', () => {
  const from = new Date(2026, 2, 1, 12).toISOString()
  expect(searchQuery({ actor: 'ann', kind: '', view: 'x', from: '2026-03-01T12:00:00' })).toEqual({
    actor: 'ann',
    from,
    to: undefined,
  })
  expect([{}, { view: 'x' }, { reason: 'typo' }].map(isFiltered)).toEqual([false, false, true])
})
