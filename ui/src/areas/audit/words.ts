import type { AuditEntry } from '../../api/types'
import i18n, { optionalText } from '../../i18n/i18n'
import { kinds } from '../../kit/change/kinds'
import { deedsOf, kindName, together } from '../../kit/change/words'
import { changeSetOf, detailsOf, partsOf } from './changes'

const verbs = { create: 'created', update: 'updated', delete: 'deleted' } as const
type Verb = keyof typeof verbs
const known = new Set(kinds)

/** An action in words: Firewall rule created. */
export function deedOf(action: string): string {
  const { kind, verb } = partsOf(action)
  const text = optionalText(`audit:actions.${action}`)
  if (text) return text
  if (!known.has(kind) || !i18n.exists(`audit:did.${verb}`)) return action
  const what = kindName(kind)
  return i18n.t(`audit:did.${verb}`, { what: what.charAt(0).toUpperCase() + what.slice(1) })
}

/** What the entries of one change set did together: 500 domains created. */
export function deedsOfAll(entries: readonly AuditEntry[]): string {
  const sums = entries.flatMap(({ action }) => {
    const { kind, verb } = partsOf(action)
    return verb in verbs ? [{ kind, created: 0, updated: 0, deleted: 0, [verbs[verb as Verb]]: 1 }] : []
  })
  return deedsOf(together(sums))
}

/** Where the request came from; undefined if the gateway acted on its own. */
export const addressOf = (entry: AuditEntry) => detailsOf(entry).remote_ip

/** A line of the log: an entry, or all entries of one change set. */
export interface Line {
  id: string
  newest: AuditEntry
  entries: AuditEntry[]
}

/** Groups entries, newest first, into lines. The entries of a change set are adjacent. */
export function linesOf(entries: readonly AuditEntry[]): Line[] {
  const lines: Line[] = []
  for (const entry of entries) {
    const last = lines.at(-1)
    const set = changeSetOf(entry)
    if (last && set && changeSetOf(last.newest) === set) last.entries.push(entry)
    else lines.push({ id: entry.id, newest: entry, entries: [entry] })
  }
  return lines
}

/** Whether it is a login or logout. */
export const isLogin = ({ action }: AuditEntry) => action.startsWith('auth.log')
