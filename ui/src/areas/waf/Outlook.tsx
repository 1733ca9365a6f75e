import { Button } from '@mantine/core'
import { type QueryClient, useQuery, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { wafConfigs } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { WafConfig, WafForecast } from '../../api/types'
import i18n from '../../i18n/i18n'
import { confirm } from '../../kit/change/confirm'
import { renew } from '../../kit/change/renew'
import { DataTable } from '../../kit/list/DataTable'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { toastApplied } from '../../kit/state/toast'
import { count } from '../../kit/text/format'
import { addsUp } from './alert-logic'
import { failsOpen } from './config-form'
import { AlertsLink } from './marks'
import { daysSince, readinessOf } from './readiness'
import { agentQuery, forecastQuery } from './resources'
import classes from './Waf.module.css'

type Watched = Pick<WafConfig, 'id' | 'domain' | 'fail_open'>

/** Asks, and switches a domain to blocking. */
async function block({ id, domain: name, fail_open }: Watched, queries: QueryClient) {
  const open = failsOpen({ fail_open, mode: 'blocking' })
  await confirm({
    title: i18n.t('waf:outlook.ask', { name }),
    text: `${i18n.t('waf:outlook.askText')} ${i18n.t(open ? 'waf:outlook.askPass' : 'waf:outlook.askRefuse')}`,
    verb: i18n.t('waf:outlook.switch'),
    act: async () => {
      const { applied } = await wafConfigs.update(id, { mode: 'blocking' }, null)
      toastApplied(i18n.t('waf:outlook.done', { name }), applied)
      await renew(queries, wafConfigs.kind)
    },
  })
}

function BlockButton({ config, named }: { config: Watched; named?: boolean }) {
  const { t } = useTranslation('waf')
  const queries = useQueryClient()
  if (!useCanEdit()) return null
  return (
    <Button
      size="compact-sm"
      variant="default"
      aria-label={named ? t('outlook.switchOf', { name: config.domain }) : undefined}
      onClick={() => block(config, queries)}
    >
      {t('outlook.switch')}
    </Button>
  )
}

function useReadiness(id: string) {
  const forecast = useQuery(forecastQuery(id))
  const agent = useQuery(agentQuery)
  const up = agent.data?.state === 'up'
  return { forecast, of: (data: WafForecast) => readinessOf(data, up, Date.now()) }
}

/** What blocking would mean for a domain, in a table row. */
export function Outlook({ config }: { config: Watched }) {
  const { t } = useTranslation('waf')
  const { forecast, of } = useReadiness(config.id)
  const { data } = forecast
  if (!data) return <span className="soft">–</span>
  switch (of(data)) {
    case 'ready':
      return (
        <span className={classes.outlook}>
          <Badge tone="live">{t('outlook.ready')}</Badge>
          <BlockButton config={config} named />
        </span>
      )
    case 'noisy':
      return <span>{t('outlook.noisy', { count: data.requests, number: count(data.requests) })}</span>
    case 'young':
      return <span className="soft">{young(data)}</span>
    default:
      return <span className="soft">{t('outlook.unknown')}</span>
  }
}

/** How many days ago the domain's settings changed. */
const young = ({ since }: WafForecast) => i18n.t('waf:outlook.young', { count: daysSince(since, Date.now()) })

/** What blocking would have refused, by rule, and an offer to switch if that is nothing. */
export function OutlookCard({ config }: { config: WafConfig }) {
  const { t } = useTranslation('waf')
  const { forecast, of } = useReadiness(config.id)
  return (
    <div className={classes.card}>
      <Loaded query={forecast} height={70}>
        {(data) => {
          const amounts = { count: data.requests, number: count(data.requests) }
          switch (of(data)) {
            case 'ready':
              return (
                <Notice tone="live" title={t('outlook.readyTitle')} action={<BlockButton config={config} />}>
                  {t('outlook.readyText')}
                </Notice>
              )
            case 'young':
              return (
                <Notice tone="off" title={t('outlook.youngTitle')}>
                  {young(data)}. {t('outlook.youngText')}
                </Notice>
              )
            case 'noisy':
              return (
                <>
                  <Notice tone="warn" title={t('outlook.noisyTitle', amounts)}>
                    {t('outlook.noisyText', { count: data.clients, number: count(data.clients) })}
                  </Notice>
                  <ForecastRules rules={data.rules} domain={config.id} />
                </>
              )
            default:
              return (
                <Notice tone="warn" title={t('outlook.unknownTitle')}>
                  {t('outlook.unknownText')}
                </Notice>
              )
          }
        }}
      </Loaded>
    </div>
  )
}

function ForecastRules({ rules, domain }: { rules: WafForecast['rules']; domain: string }) {
  const { t } = useTranslation('waf')
  return (
    <div className={classes.framed}>
      <DataTable
        label={t('outlook.rules')}
        rows={rules.filter(({ rule_id }) => !addsUp(rule_id))}
        rowKey={(row) => String(row.rule_id)}
        columns={[
          {
            key: 'rule',
            header: t('outlook.rule'),
            cell: (row) => (
              <span>
                <AlertsLink of={{ domain_id: domain, rule_id: String(row.rule_id) }}>
                  <span className="mono">{row.rule_id}</span>
                </AlertsLink>
                <span className={classes.soft}>{row.message}</span>
              </span>
            ),
          },
          {
            key: 'requests',
            header: t('outlook.requests'),
            width: '80px',
            align: 'right',
            cell: (row) => count(row.requests),
          },
          {
            key: 'clients',
            header: t('outlook.clients'),
            width: '70px',
            align: 'right',
            cell: (row) => count(row.clients),
          },
        ]}
      />
    </div>
  )
}
