import type { Planned } from '../../api/types'
import type { RowDeed } from '../../kit/change/rows'

type Change = Planned['changes'][number]

/** A change to a row. A document refers to rows by name, so there are no ids. */
export function deedOf({ kind, name, verb, fields, secrets }: Change): RowDeed {
  const changes = Object.entries(fields).map(([field, [before, after]]) => ({ field, before, after }))
  return { kind, id: '', name, verb, changes, secrets }
}

/** The number of rows to create, change and delete. */
export function sumOf(changes: readonly Change[]): Record<Change['verb'], number> {
  const sum = { create: 0, update: 0, delete: 0 }
  for (const { verb } of changes) sum[verb]++
  return sum
}

export interface Complaint {
  kind: string
  name: string
  field: string
  line: number
  message: string
}

/** The errors in a document, by line; empty if the request failed for another reason. */
export function complaintsOf(details: unknown): Complaint[] {
  const list = (details as { complaints?: Complaint[] } | null | undefined)?.complaints
  return Array.isArray(list) ? list.toSorted((a, b) => a.line - b.line) : []
}

/** A text that starts like a JSON object is sent as JSON. YAML would accept it, but with YAML's error messages. */
export const mediaOf = (text: string) => (text.trimStart().startsWith('{') ? 'application/json' : 'application/yaml')
