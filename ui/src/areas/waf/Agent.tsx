import { Button } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { useCanEdit } from '../../api/session'
import type { WafAgent, WafSummary } from '../../api/types'
import { Facts, Panel } from '../../kit/page/Page'
import { Notice } from '../../kit/state/Notice'
import { toast, toastFault } from '../../kit/state/toast'
import { count } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import { failsOpen } from './config-form'
import { configsQuery } from './resources'

/** The state of the agent, and what does not work without it. */
export function Agent({ summary: { agent, enabled } }: { summary: WafSummary }) {
  const { t } = useTranslation('waf')
  if (agent.state !== 'up' && enabled === 0) {
    return (
      <Notice tone="off" title={t('agent.idle')}>
        {t('agent.idleText')}
      </Notice>
    )
  }
  if (agent.state !== 'up') return <Down />
  return (
    <>
      {agent.source === 'file' && (
        <Notice tone="warn" title={t('agent.fileTitle')}>
          {t('agent.fileText')}
        </Notice>
      )}
      <Panel title={t('agent.title')}>
        <Facts facts={factsOf(agent, t)} />
      </Panel>
    </>
  )
}

function factsOf(agent: WafAgent, t: (key: string) => string): [string, React.ReactNode][] {
  const failed = Object.entries(agent.failed).filter(([, number]) => number > 0)
  const total = failed.reduce((sum, [, number]) => sum + number, 0)
  return [
    [t('agent.since'), <Time key="since" at={agent.since} />],
    [t('agent.domains'), count(agent.domains)],
    [t('agent.inspected'), count(agent.inspected)],
    [t('agent.denied'), count(agent.denied)],
    [
      t('agent.failed'),
      <span key="failed" title={failed.map(([reason, number]) => `${reason}: ${count(number)}`).join(', ')}>
        {count(total)}
      </span>,
    ],
    [t('agent.dropped'), count(agent.dropped)],
    [t('agent.version'), agent.version || '–'],
  ]
}

function Down() {
  const { t } = useTranslation('waf')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  const { data: configs = [] } = useQuery(configsQuery)
  const on = configs.filter(({ enabled }) => enabled)
  const passing = on.filter(failsOpen).length
  const refusing = on.length - passing
  const start = useMutation({
    mutationFn: () => unwrap(http.POST('/system/service-toggle', { body: { service: 'waf', enabled: true } })),
    onSuccess: ({ active, error }) => {
      if (active === 'active' || active === 'activating') toast('live', t('agent.started'))
      else toast('bad', t('agent.notStarted'), active === 'not_installed' ? t('agent.notInstalled') : error)
    },
    onError: toastFault,
    onSettled: () => queries.invalidateQueries({ queryKey: ['waf'] }),
  })
  return (
    <Notice
      tone="bad"
      title={t('agent.downTitle')}
      action={
        canEdit && (
          <Button size="compact-sm" variant="default" loading={start.isPending} onClick={() => start.mutate()}>
            {t('agent.start')}
          </Button>
        )
      }
    >
      {[
        t('agent.downText'),
        refusing > 0 && t('agent.refusing', { count: refusing }),
        passing > 0 && t('agent.passing', { count: passing }),
      ]
        .filter(Boolean)
        .join(' ')}
    </Notice>
  )
}
