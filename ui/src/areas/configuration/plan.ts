import type { Planned } from '../../api/types'
import type { RowDeed } from '../../kit/change/rows'

type Change = Planned['changes'][number]

/** What a document does to a row. It names what rows refer to, so it has no ids. */
export function deedOf({ kind, name, verb, fields, secrets }: Change): RowDeed {
  const changes = Object.entries(fields).map(([field, [before, after]]) => ({ field, before, after }))
  return { kind, id: '', name, verb, changes, secrets }
}

/** How many rows it creates, changes and deletes. */
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

/** What is wrong with a document, line by line; none where the fault is another one. */
export function complaintsOf(details: unknown): Complaint[] {
  const list = (details as { complaints?: Complaint[] } | null | undefined)?.complaints
  return Array.isArray(list) ? list.toSorted((a, b) => a.line - b.line) : []
}

/** A document is JSON if it is an object; YAML would take it, too, but not complain about it in JSON's words. */
export const mediaOf = (text: string) => (text.trimStart().startsWith('{') ? 'application/json' : 'application/yaml')
