import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { IdsStatus, WafSummary } from '../../api/types'
import { Chart } from '../../kit/chart/Chart'
import { Meter } from '../../kit/page/Meter'
import { count } from '../../kit/text/format'
import { paths } from '../../paths'
import { DaemonBadge, originName } from '../ids/marks'
import { statusQuery } from '../ids/resources'
import { totalOf, useSeries } from '../waf/Day'
import { summaryQuery } from '../waf/resources'
import classes from './Overview.module.css'

/** The WAF and intrusion detection at a glance. What is off is not shown. */
export default function SecurityMeters() {
  const { t } = useTranslation('overview')
  const waf = useQuery(summaryQuery)
  const ids = useQuery(statusQuery)
  const inspecting = waf.data && waf.data.enabled > 0
  if (!inspecting && !ids.data?.enabled) return null
  return (
    <section className={classes.meters} aria-label={t('common:nav.security')}>
      {inspecting && <Waf summary={waf.data} />}
      {ids.data?.enabled && <Ids status={ids.data} />}
    </section>
  )
}

function Waf({ summary }: { summary: WafSummary }) {
  const { t } = useTranslation('overview')
  const lines = useSeries(summary.series)
  return (
    <Meter
      title={<Link to={paths.waf}>{t('security.waf')}</Link>}
      value={t('security.blocked', { number: count(totalOf(summary, 'blocked')) })}
      note={t('security.wafNote', {
        detected: count(totalOf(summary, 'detected')),
        count: summary.enabled,
      })}
      alarm={summary.agent.state !== 'up' && t('security.agentDown')}
    >
      <Chart {...lines} label={t('security.chart')} height={72} floor={5} format={count} />
    </Meter>
  )
}

function Ids({ status }: { status: IdsStatus }) {
  const { t } = useTranslation('overview')
  const { agent, firewall_bouncer: bouncer, blocking, decisions, origins, error } = status
  const failing = agent.state !== 'running' && agent.state !== 'starting'
  return (
    <Meter
      title={<Link to={paths.ids}>{t('common:nav.ids')}</Link>}
      value={error ? '–' : t('security.banned', { number: count(decisions) })}
      note={
        Object.entries(origins)
          .map(([origin, number]) => `${originName(origin)} ${count(number)}`)
          .join(' · ') || t('security.noBans')
      }
      alarm={failing && t('security.crowdsecDown')}
    >
      <ul className={classes.troubled}>
        <li>
          {t('security.crowdsec')} <DaemonBadge daemon={agent} wanted />
        </li>
        <li>
          {t('security.bouncer')} <DaemonBadge daemon={bouncer} wanted={blocking} />
        </li>
      </ul>
    </Meter>
  )
}
