import { queryOptions } from '@tanstack/react-query'
import { answer, http, unwrap } from '../../api/client'
import type { WaitingSet } from '../../api/types'

/** The pending changes on this node, and how far the gateway's clock is ahead of the browser's. */
export interface Waiting {
  sets: WaitingSet[]
  ahead: number
}

export const waitingQuery = queryOptions({
  queryKey: ['change-set', 'waiting'],
  queryFn: async (): Promise<Waiting> => {
    const call = http.GET('/change-sets/waiting')
    const { value } = await answer(call)
    return { sets: value, ahead: aheadOf((await call).response.headers.get('Date'), Date.now()) }
  },
  // Polls faster while a change is pending: someone else may confirm it, too.
  refetchInterval: ({ state }) => (state.data?.sets.length ? 2000 : 15_000),
})

/** One change set with everything that it did. */
export const setQuery = (id: string) =>
  queryOptions({
    queryKey: ['change-set', id],
    queryFn: () => unwrap(http.GET('/change-sets/{id}', { params: { path: { id } } })),
  })

/**
 * How far the other clock is ahead, in milliseconds. Up to two seconds may be due to latency and the header's whole
 * seconds, and count as 0.
 */
export function aheadOf(date: string | null, now: number): number {
  const ahead = Date.parse(date ?? '') - now
  return Math.abs(ahead) > 2000 ? ahead : 0
}

/** Whole seconds left, never negative. */
export function secondsLeft(confirmBy: string, now: number, ahead: number): number {
  return Math.max(0, Math.ceil((Date.parse(confirmBy) - ahead - now) / 1000))
}
