import '../proxy/texts'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { certificates } from '../../api/resources'
import type { Certificate } from '../../api/types'
import { Chart } from '../../kit/chart/Chart'
import { hour, rate } from '../../kit/chart/history'
import { Meter } from '../../kit/page/Meter'
import { Notice } from '../../kit/state/Notice'
import { paths } from '../../paths'
import { CertificateBadge, DaysLeft } from '../certificates/marks'
import { withoutCertificate } from '../certificates/standing'
import { useLive } from '../proxy/health'
import { HealthBadge } from '../proxy/marks'
import { historyQuery, linesOf } from '../proxy/traffic'
import { useBackends, useDomains } from '../proxy/useSites'
import classes from './Overview.module.css'

const none: Certificate[] = []
/** A share of errors that is normal for a busy site. */
const tolerated = 0.01
/** How many to name; the linked page lists all. */
const shown = 3

/** The proxy at a glance: requests, backends that are not up, and certificates that need attention. */
export default function ProxyMeters() {
  const { t } = useTranslation('overview')
  return (
    <section className={classes.meters} aria-label={t('common:nav.proxy')}>
      <Requests />
      <Backends />
      <Certificates />
    </section>
  )
}

function Requests() {
  const { t } = useTranslation('overview')
  const live = useLive()
  const { data } = useQuery(historyQuery)
  const lines = useMemo(() => linesOf(data ?? { points: [], step_seconds: 0 }), [data])
  const now = data?.points.at(-1)
  return (
    <Meter
      title={<Link to={paths.proxyStatistics}>{t('proxy.requests')}</Link>}
      value={t('proxy.rate', { rate: now ? rate(now.requests) : '–' })}
      note={t('proxy.errors', { rate: now ? rate(now.errors) : '–' })}
      alarm={now !== undefined && now.errors > tolerated * now.requests && t('proxy.failing')}
    >
      {live.error ? (
        <Notice tone="warn">{live.error}</Notice>
      ) : (
        <Chart
          label={t('proxy.chart')}
          times={lines.times}
          values={lines.requests}
          bad={lines.errors}
          window={hour}
          height={72}
          format={String}
        />
      )}
    </Meter>
  )
}

function Backends() {
  const { t } = useTranslation('overview')
  const live = useLive()
  const { all, serversOf } = useBackends()
  const healths = all
    .filter(({ active }) => active)
    .map(({ id, name, active }) => ({ id, name, health: live.healthOf({ id, active }, serversOf(id)) }))
  const down = healths.filter(({ health }) => health === 'down' || health === 'empty')
  const degraded = healths.filter(({ health }) => health === 'degraded')
  const troubled = [...down, ...degraded]
  const alarm =
    (down.length > 0 && t('proxy.down', { count: down.length })) ||
    (degraded.length > 0 && t('proxy.degraded', { count: degraded.length }))
  return (
    <Meter
      title={<Link to={paths.backends}>{t('proxy.backends')}</Link>}
      value={t('proxy.up', { up: healths.filter(({ health }) => health === 'up').length, all: healths.length })}
      note={t('proxy.backendsNote')}
      alarm={alarm}
    >
      <ul className={classes.troubled}>
        {troubled.slice(0, shown).map(({ id, name, health }) => (
          <li key={id}>
            <Link to={paths.backend(id)}>{name}</Link>
            <HealthBadge health={health} />
          </li>
        ))}
        {troubled.length === 0 && <li className="soft">{t('proxy.fine')}</li>}
      </ul>
    </Meter>
  )
}

function Certificates() {
  const { t } = useTranslation('overview')
  const { data, isSuccess } = useQuery({ queryKey: [certificates.kind], queryFn: certificates.list })
  const all = data ?? none
  const { all: domains } = useDomains()
  const bare = isSuccess ? withoutCertificate(domains, all) : []
  const having = (status: Certificate['status']) => all.filter((one) => one.status === status)
  const expiring = having('expiring')
  const expired = having('expired')
  const failed = all.filter((one) => one.last_error)
  const troubled = [...new Set([...expired, ...failed, ...expiring])]
  const count = bare.length + troubled.length
  return (
    <Meter
      title={<Link to={paths.certificates}>{t('proxy.certificates')}</Link>}
      value={String(all.length)}
      note={t('proxy.standing', {
        expiring: expiring.length,
        expired: expired.length,
        errors: failed.length,
        missing: bare.length,
      })}
      alarm={count > 0 && t('proxy.seeTo', { count })}
    >
      <ul className={classes.troubled}>
        {bare.slice(0, shown).map((one) => (
          <li key={one.id}>
            <Link to={paths.domain(one.id)} className="mono">
              {one.name}
            </Link>
            <CertificateBadge certificate={undefined} />
          </li>
        ))}
        {troubled.slice(0, Math.max(0, shown - bare.length)).map((one) => (
          <li key={one.id}>
            <Link to={paths.certificate(one.id)} className="mono">
              {one.names[0] ?? one.id}
            </Link>
            <CertificateBadge certificate={one} />
            <span className="soft">
              <DaysLeft certificate={one} />
            </span>
          </li>
        ))}
        {isSuccess && count === 0 && <li className="soft">{t('proxy.fine')}</li>}
      </ul>
    </Meter>
  )
}
