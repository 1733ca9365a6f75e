import type { ChangeSet } from '../../api/types'
import i18n, { optionalText } from '../../i18n/i18n'
import './texts'

type Sum = ChangeSet['kinds'][number]

const verbs = ['created', 'updated', 'deleted'] as const
/** How many parts to name; the rest are counted. */
const mostParts = 3

/** A number of rows of a kind: 2 firewall rules. */
export function rowsOf(kind: string, count: number): string {
  const key = `change:kinds.${kind}`
  return i18n.exists(key, { count }) ? i18n.t(key, { count }) : `${count} ${optionalText(`kinds.${kind}`) ?? kind}`
}

export function kindName(kind: string): string {
  const key = `change:kinds.${kind}`
  if (!i18n.exists(key, { count: 1 })) return optionalText(`kinds.${kind}`) ?? kind
  return i18n.t(key, { count: 1 }).replace(/^1 /, '')
}

/** Adds up changes by kind. */
export function together(sums: readonly Sum[]): Sum[] {
  const kinds = new Map<string, Sum>()
  for (const sum of sums) {
    const all = kinds.get(sum.kind) ?? { kind: sum.kind, created: 0, updated: 0, deleted: 0 }
    for (const verb of verbs) all[verb] += sum[verb]
    kinds.set(sum.kind, all)
  }
  return [...kinds.values()]
}

/** What a change set did, in words: 2 firewall rules changed, 1 zone deleted. */
export function deedsOf(kinds: readonly Sum[]): string {
  const parts = kinds.flatMap((sum) =>
    verbs
      .filter((verb) => sum[verb] > 0)
      .map((verb) => i18n.t(`change:did.${verb}`, { what: rowsOf(sum.kind, sum[verb]) })),
  )
  if (parts.length === 0) return i18n.t('change:nothing')
  const rest = parts.length - mostParts
  if (rest <= 0) return parts.join(', ')
  return [...parts.slice(0, mostParts), i18n.t('change:moreKinds', { count: rest })].join(', ')
}
