import { queryOptions } from '@tanstack/react-query'
import { http, unwrap } from '../../api/client'
import type { ProxyHistory } from '../../api/types'
import { lineOf } from '../../kit/chart/history'

export const historyQuery = queryOptions({
  queryKey: ['proxy', 'stats', 'history'],
  queryFn: () => unwrap(http.GET('/proxy/stats/history')),
  refetchInterval: 10_000,
})

/** The requests and errors of the last hour, as a chart takes them. */
export function linesOf(history: Pick<ProxyHistory, 'points' | 'step_seconds'>) {
  const { times, values } = lineOf(history, ({ requests }) => requests)
  return { times, requests: values, errors: lineOf(history, ({ errors }) => errors).values }
}
