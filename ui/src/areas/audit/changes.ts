import type { AuditEntry } from '../../api/types'
import type { FieldChange } from '../../kit/change/FieldChanges'

/** What happened to one thing in a period. */
export interface ChangedThing {
  key: string
  kind: string
  /** Its last name. */
  subject: string
  /** For the whole period. Passing means created and deleted again. */
  fate: 'created' | 'changed' | 'deleted' | 'passing'
  /** Each field with its first and last value; those that ended up unchanged are left out. */
  changes: FieldChange[]
  actors: string[]
  /** The entries about it, newest first. */
  entries: AuditEntry[]
}

/** The details of an entry about a row. */
interface Details {
  id?: string
  fields?: Record<string, [unknown, unknown]>
  change_set?: string
  remote_ip?: string
}

/** The details of an entry; empty for users who may not see them. */
export const detailsOf = ({ details }: Pick<AuditEntry, 'details'>) => (details ?? {}) as Details

const verbs = new Set(['create', 'update', 'delete', 'move'])

/** The kind and the verb of an action such as ntp.pool.create. */
export function partsOf(action: string): { kind: string; verb: string } {
  const at = action.lastIndexOf('.')
  return { kind: action.slice(0, Math.max(at, 0)), verb: action.slice(at + 1) }
}

/** The change set that an entry is part of, if any. */
export const changeSetOf = (entry: Pick<AuditEntry, 'details'>) => detailsOf(entry).change_set || undefined

/** The changed fields of an entry, with their values before and after. */
export function changesOf(entry: Pick<AuditEntry, 'details'>): FieldChange[] {
  return Object.entries(detailsOf(entry).fields ?? {}).map(([field, [before, after]]) => ({ field, before, after }))
}

const same = (a: unknown, b: unknown) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null)

/** Adds up entries, newest first, by thing. The last one changed comes first. */
export function whatChanged(entries: readonly AuditEntry[]): ChangedThing[] {
  const things = new Map<string, AuditEntry[]>()
  for (const entry of entries) {
    const { kind, verb } = partsOf(entry.action)
    const { id, fields } = detailsOf(entry)
    if (!fields && !verbs.has(verb)) continue
    const key = `${kind} ${id ?? entry.subject}`
    things.set(key, [...(things.get(key) ?? []), entry])
  }
  return [...things]
    .map(([key, about]) => thingOf(key, about))
    .filter(({ fate, changes }) => fate !== 'changed' || changes.length > 0)
}

function thingOf(key: string, entries: AuditEntry[]): ChangedThing {
  const net = new Map<string, FieldChange>()
  for (const entry of entries.toReversed()) {
    for (const { field, before, after } of changesOf(entry)) {
      net.set(field, { field, before: net.has(field) ? net.get(field)?.before : before, after })
    }
  }
  const newest = entries[0] as AuditEntry
  const born = partsOf((entries.at(-1) as AuditEntry).action).verb === 'create'
  const gone = partsOf(newest.action).verb === 'delete'
  return {
    key,
    kind: partsOf(newest.action).kind,
    subject: newest.subject,
    fate: born && gone ? 'passing' : born ? 'created' : gone ? 'deleted' : 'changed',
    changes: [...net.values()].filter(({ before, after }) => !same(before, after)),
    actors: [...new Set(entries.map(({ actor }) => actor))],
    entries,
  }
}

/** The start of yesterday, in local time. */
export function yesterday(now: Date): Date {
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() - 1)
}
