import type { Reverted } from '../../api/types'

type Conflict = Reverted['conflicts'][number]

/** What each way out of a conflict is called: about a field, or about the row as a whole. */
export function waysOf({ field, then }: Pick<Conflict, 'field' | 'then'>): 'field' | 'delete' | 'restore' {
  if (field !== '') return 'field'
  return then === null ? 'delete' : 'restore'
}

type Choice = { kind: string; id: string; field: string; take: 'then' | 'now' }

/** The choices with one more, or another one. */
export function chosen(choices: readonly Choice[], { kind, id, field }: Conflict, take: Choice['take']): Choice[] {
  const others = choices.filter((one) => one.kind !== kind || one.id !== id || one.field !== field)
  return [...others, { kind, id, field, take }]
}

/** How many conflicts are still to be decided. */
export const undecided = (conflicts: readonly Conflict[]) => conflicts.filter(({ taken }) => taken === '').length
