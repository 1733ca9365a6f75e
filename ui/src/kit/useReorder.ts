import { useQueryClient } from '@tanstack/react-query'
import type { OrderedResource } from '../api/resource'
import i18n from '../i18n/i18n'
import { toastApplied, toastFault } from './toast'

/** Puts the rows into another order: at once on screen, and back when the gateway refuses. */
export function useReorder<T extends { id: string }>({ kind, reorder }: OrderedResource<T>) {
  const queries = useQueryClient()
  return async (ids: string[]) => {
    void queries.cancelQueries({ queryKey: [kind], exact: true }, { revert: false })
    const before = queries.getQueryData<T[]>([kind]) ?? []
    const byId = new Map(before.map((row) => [row.id, row]))
    queries.setQueryData<T[]>(
      [kind],
      ids.flatMap((id) => byId.get(id) ?? []),
    )
    try {
      const { value, applied } = await reorder(ids)
      queries.setQueryData([kind], value)
      toastApplied(i18n.t('list.moved'), applied)
    } catch (cause) {
      queries.setQueryData([kind], before)
      toastFault(cause)
    }
  }
}

/** The whole order after a part of it was put into another one: the places of the part stay the part's. */
export function within(all: readonly string[], part: readonly string[]): string[] {
  const own = new Set(part)
  let next = 0
  return all.map((id) => (own.has(id) ? (part[next++] as string) : id))
}

/** The ids with one of them at another place. */
export function moved(ids: readonly string[], from: number, to: number): string[] {
  const rest = ids.filter((_, index) => index !== from)
  return [...rest.slice(0, to), ids[from] as string, ...rest.slice(to)]
}
