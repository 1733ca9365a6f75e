import { useTranslation } from 'react-i18next'
import type { Certificate } from '../../api/types'
import { optionalText } from '../../i18n/i18n'
import { Badge } from '../../kit/state/StateBadge'
import { exactTime } from '../../kit/text/format'
import classes from './Certificates.module.css'
import { daysLeft, lifeOf, standingOf, standingTone } from './standing'

/** The state of a certificate, or that there is none. */
export function CertificateBadge({ certificate }: { certificate: Certificate | undefined }) {
  const { t } = useTranslation('certificates')
  const standing = standingOf(certificate)
  return (
    <span title={certificate?.last_error || optionalText(`certificates:standingHelp.${standing}`)}>
      <Badge tone={standingTone[standing]}>{t(`standings.${standing}`)}</Badge>
    </span>
  )
}

export function DaysLeft({ certificate }: { certificate: Certificate }) {
  const { t } = useTranslation('certificates')
  const days = daysLeft(certificate)
  if (days === null) return null
  return (
    <span title={exactTime(certificate.expires_at as string)}>
      {days < 0 ? t('daysOver', { count: -days }) : t('daysLeft', { count: days })}
    </span>
  )
}

/** The lifetime of a certificate as a bar: how much is over, and when it will be renewed. */
export function Timeline({ certificate }: { certificate: Certificate }) {
  const { t } = useTranslation('certificates')
  const life = lifeOf(certificate, Date.now())
  const days = daysLeft(certificate)
  if (!life || days === null) return <span className="soft">{t('notIssued')}</span>
  const label = days < 0 ? t('daysOver', { count: -days }) : t('daysLeft', { count: days })
  const percent = (part: number) => `${(part * 100).toFixed(1)}%`
  return (
    <span className={classes.timeline} data-tone={standingTone[standingOf(certificate)]}>
      <span className={classes.bar} role="img" aria-label={label}>
        <span className={classes.spent} style={{ width: percent(life.spent) }} />
        {life.renewal !== null && (
          <span
            className={classes.renewal}
            style={{ left: percent(life.renewal) }}
            title={t('renewAt', { time: exactTime(certificate.renew_at as string) })}
          />
        )}
      </span>
      <span className={classes.days}>
        <DaysLeft certificate={certificate} />
      </span>
    </span>
  )
}
