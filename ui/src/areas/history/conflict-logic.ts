import type { Reverted } from '../../api/types'

type Conflict = Reverted['conflicts'][number]

/** What a conflict is about: a field, or deleting or restoring the whole row. Selects its texts. */
export function waysOf({ field, then }: Pick<Conflict, 'field' | 'then'>): 'field' | 'delete' | 'restore' {
  if (field !== '') return 'field'
  return then === null ? 'delete' : 'restore'
}

type Choice = { kind: string; id: string; field: string; take: 'then' | 'now' }

/** Adds or replaces a choice. */
export function chosen(choices: readonly Choice[], { kind, id, field }: Conflict, take: Choice['take']): Choice[] {
  const others = choices.filter((one) => one.kind !== kind || one.id !== id || one.field !== field)
  return [...others, { kind, id, field, take }]
}

/** How many conflicts are undecided. */
export const undecided = (conflicts: readonly Conflict[]) => conflicts.filter(({ taken }) => taken === '').length
