import type { ChangeSetWhole, Reverted } from '../../api/types'
import { type Model, modelChanges } from './model-changes'

/** What is done to one row. */
export interface RowDeed {
  kind: string
  /** Empty if only the name is known. */
  id: string
  name: string
  verb: 'create' | 'update' | 'delete'
  changes: { field: string; before: unknown; after: unknown }[]
  /** The fields of a new row that have their defaults. */
  usual?: readonly string[]
  secrets?: readonly string[]
  hidden?: boolean
}

const bookkeeping = ['id', 'created_at', 'updated_at']
const empty = (value: unknown) =>
  value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0)
/** Whether a change is worth showing. It is not if the field is empty before and after. */
export const said = ({ before, after }: { before: unknown; after: unknown }) => !empty(before) || !empty(after)

/** What a change set did to a row, or a draft will do. */
export function deedOf(row: Omit<ChangeSetWhole['rows'][number], 'hidden'> & { hidden?: boolean }): RowDeed {
  const { kind, id, name, verb, fields, usual, secrets, hidden } = row
  const changes = Object.entries(fields)
    .filter(([field]) => !bookkeeping.includes(field))
    .map(([field, [before, after]]) => ({ field, before, after: verb === 'delete' ? undefined : after }))
  return { kind, id, name, verb, changes: changes.filter(said), usual, secrets, hidden }
}

/** What a revert would do to a row. */
export function plannedDeed({ kind, id, name, verb, before, after, usual }: Reverted['changes'][number]): RowDeed {
  return { kind, id, name, verb, changes: modelChanges(before as Model, after as Model).filter(said), usual }
}
