import { IconAlertTriangle } from '@tabler/icons-react'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { RoutingRule } from '../../api/types'
import { optionalText } from '../../i18n/i18n'
import { Badge } from '../../kit/state/StateBadge'
import { paths } from '../../paths'
import { CertificateBadge, DaysLeft } from '../certificates/marks'
import { checkCode, type Health, healthTone, type Stat } from './health'
import classes from './Proxy.module.css'
import type { Site } from './useSites'

export function HealthBadge({ health }: { health: Health }) {
  const { t } = useTranslation('proxy')
  return (
    <span title={t(`healths.${health}.help`)}>
      <Badge tone={healthTone[health]}>{t(`healths.${health}.word`)}</Badge>
    </span>
  )
}

/** The result of the last health check in words, and on hover as HAProxy reports it. */
export function CheckWords({ stat }: { stat: Stat | undefined }) {
  const code = stat ? checkCode(stat) : ''
  if (!stat || !code) return null
  return (
    <small className={classes.under} title={[code, stat.check_detail].filter(Boolean).join(': ')}>
      {optionalText(`proxy:checks.${code}`) ?? code}
    </small>
  )
}

/** A backend's name and state. */
export function BackendCell({ id, name, health }: { id: string; name: string | undefined; health: Health }) {
  return (
    <span className={classes.stack}>
      <Link to={paths.backend(id)}>{name ?? id}</Link>
      <HealthBadge health={health} />
    </span>
  )
}

/** A label next to a name. */
export function Mark({ children }: { children: string }) {
  return <span className={classes.mark}>{children}</span>
}

/** The certificate that a site's visitors get. */
export function SiteCertificate({ site }: { site: Site }) {
  const { certificate } = site
  return (
    <span className={classes.stack}>
      {certificate ? (
        <Link to={paths.certificate(certificate.id)}>
          <CertificateBadge certificate={certificate} />
        </Link>
      ) : (
        <CertificateBadge certificate={undefined} />
      )}
      {certificate && (
        <small className={classes.under}>
          <DaysLeft certificate={certificate} />
        </small>
      )}
    </span>
  )
}

/** A rule's prefix, and the earlier rule that shadows it. */
export function Prefix({ rule, by }: { rule: RoutingRule; by: RoutingRule | undefined }) {
  const { t } = useTranslation('proxy')
  return (
    <span className={classes.stack}>
      <span className={rule.active ? 'mono' : `mono ${classes.off}`}>{rule.path_prefix}</span>
      {by && (
        <small className={classes.warning}>
          <IconAlertTriangle size={13} aria-hidden />
          <span>{t('routing.shadowed', { prefix: by.path_prefix })}</span>
        </small>
      )}
    </span>
  )
}
