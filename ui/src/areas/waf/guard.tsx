import { useQueryClient } from '@tanstack/react-query'
import type { Answer } from '../../api/client'
import { wafConfigs } from '../../api/resources'
import type { WafConfig } from '../../api/types'
import i18n from '../../i18n/i18n'
import type { Guard } from '../../kit/change/remove'
import { Notice } from '../../kit/state/Notice'
import { count } from '../../kit/text/format'
import { failsOpen, stateOf } from './config-form'
import { agentQuery, forecastQuery } from './resources'

type Wanted = Pick<WafConfig, 'enabled' | 'mode' | 'fail_open'>

/** Whether a domain refuses requests while the agent is unreachable. */
const needsAgent = (config: Wanted) => config.enabled && !failsOpen(config)

/** Warns if a change would refuse visitors who were let in before. */
export function useGuard(id: string): Guard {
  const queries = useQueryClient()
  return async ([operation]) => {
    const wanted = operation?.body as unknown as Wanted
    const was = queries.getQueryData<Answer<WafConfig>>([wafConfigs.kind, id])?.value
    const objections: string[] = []
    if (stateOf(wanted) === 'blocking' && stateOf(was) === 'detection') {
      const { requests } = await queries.fetchQuery({ ...forecastQuery(id), staleTime: 0 })
      if (requests > 0) objections.push(i18n.t('waf:guard.noisy', { count: requests, number: count(requests) }))
    }
    if (needsAgent(wanted) && !(was && needsAgent(was))) {
      const { state } = await queries.fetchQuery({ ...agentQuery, staleTime: 0 })
      if (state !== 'up') objections.push(i18n.t('waf:guard.down'))
    }
    if (objections.length === 0) return null
    return (
      <Notice tone="warn" title={i18n.t('waf:guard.title')}>
        {objections.map((text) => (
          <div key={text}>{text}</div>
        ))}
      </Notice>
    )
  }
}
