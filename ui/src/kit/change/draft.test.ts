import { expect, it } from 'vitest'
import type { DraftOperation } from '../../api/types'
import { withNew } from './draft'

const operation = (kind: string, verb: DraftOperation['verb'], id: string) =>
  ({ kind, verb, id, after: { id } }) as DraftOperation

it('adds the rows that a draft creates to those of their kind', () => {
  const rows = [{ id: '1' }]
  const drafted = [
    operation('thing', 'create', '2'),
    operation('thing', 'update', '1'),
    operation('other', 'create', '3'),
  ]
  expect(withNew(rows, 'thing', drafted)).toEqual([{ id: '1' }, { id: '2' }])
  expect(withNew(rows, 'third', drafted)).toBe(rows)
})
