import { useQueryClient } from '@tanstack/react-query'
import type { OrderedResource } from '../../api/resource'
import i18n from '../../i18n/i18n'
import { usualIntent } from '../change/intent'
import { renew } from '../change/renew'
import { toastApplied, toastFault } from '../state/toast'

/** Moves a row: at once on screen, and back if the gateway refuses. */
export function useMove<T extends { id: string }>({ kind, move }: OrderedResource<T>) {
  const queries = useQueryClient()
  return async (id: string, after: string | null) => {
    void queries.cancelQueries({ queryKey: [kind], exact: true }, { revert: false })
    const before = queries.getQueryData<T[]>([kind]) ?? []
    queries.setQueryData<T[]>([kind], moved(before, id, after))
    try {
      const { applied } = await move(id, after, usualIntent(kind))
      toastApplied(i18n.t('list.moved'), applied)
    } catch (cause) {
      queries.setQueryData([kind], before)
      toastFault(cause)
    }
    await renew(queries, kind)
  }
}

/** Moves a row right behind another, or to the front. */
export function moved<T extends { id: string }>(rows: readonly T[], id: string, after: string | null): T[] {
  const rest = rows.filter((row) => row.id !== id)
  const place = after === null ? 0 : rest.findIndex((row) => row.id === after) + 1
  return [...rest.slice(0, place), ...rows.filter((row) => row.id === id), ...rest.slice(place)]
}

/**
 * The row to move behind, so that a row gets the given index among the shown rows; null for the front. Index 0 is right
 * behind the row that precedes the shown ones.
 */
export function rowBefore(all: readonly string[], part: readonly string[], id: string, place: number): string | null {
  const others = part.filter((one) => one !== id)
  if (place > 0) return others[place - 1] ?? null
  const rest = all.filter((one) => one !== id)
  return rest[rest.indexOf(others[0] ?? '') - 1] ?? null
}
