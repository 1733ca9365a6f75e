import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Meter } from '../../kit/page/Meter'
import { count } from '../../kit/text/format'
import { paths } from '../../paths'
import { SeverityBadge } from '../alerts/marks'
import { openQuery } from '../alerts/resources'
import { BackupMeter } from '../backups/BackupMeter'
import classes from './Overview.module.css'

const shown = 4

/** What needs attention. */
export default function OperationsMeters() {
  const { t } = useTranslation('overview')
  return (
    <section className={classes.meters} aria-label={t('common:nav.operations')}>
      <Alerts />
      <BackupMeter />
    </section>
  )
}

function Alerts() {
  const { t } = useTranslation('overview')
  const { data: open } = useQuery(openQuery)
  const bad = open?.filter(({ severity }) => severity === 'error' || severity === 'critical').length ?? 0
  return (
    <Meter
      title={<Link to={paths.alerts}>{t('operations.alerts')}</Link>}
      value={open ? t('operations.open', { number: count(open.length) }) : '–'}
      note={open?.length === 0 ? t('operations.fine') : t('operations.bad', { count: bad })}
      alarm={bad > 0 && t('operations.look')}
    >
      <ul className={classes.troubled}>
        {open?.slice(0, shown).map((one) => (
          <li key={`${one.kind} ${one.key}`} title={one.message}>
            {one.subject} <SeverityBadge severity={one.severity} />
          </li>
        ))}
      </ul>
    </Meter>
  )
}
