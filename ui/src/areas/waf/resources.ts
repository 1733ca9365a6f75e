import { queryOptions } from '@tanstack/react-query'
import { http, unwrap } from '../../api/client'
import { wafConfigs } from '../../api/resources'
import { Stream } from '../../api/stream'
import type { WafAlert } from '../../api/types'

export const configsQuery = queryOptions({ queryKey: [wafConfigs.kind], queryFn: wafConfigs.list })

/** The last day, and the agent's state. */
export const summaryQuery = queryOptions({
  queryKey: ['waf', 'summary'],
  queryFn: () => unwrap(http.GET('/waf/summary')),
  refetchInterval: 10_000,
})

export const agentQuery = queryOptions({
  queryKey: ['waf', 'status'],
  queryFn: () => unwrap(http.GET('/waf/status')),
  refetchInterval: 10_000,
})

/** What blocking would have refused in the last week. */
export const forecastQuery = (id: string) =>
  queryOptions({
    queryKey: ['waf', 'forecast', id],
    queryFn: () => unwrap(http.GET('/waf/configs/{id}/forecast', { params: { path: { id } } })),
    staleTime: 30_000,
  })

export const alertStream = new Stream<WafAlert>('/waf/alerts/live', { key: ({ id }) => id, limit: 500 })
