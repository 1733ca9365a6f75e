import { Button } from '@mantine/core'
import { useMutation, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect } from 'react'
import { useTranslation } from 'react-i18next'
import { maintenance } from '../api/resources'
import { useCanEdit } from '../api/session'
import { healthQuery } from '../api/state'
import { componentStream } from '../api/streams'
import { reapply } from '../areas/components/reapply'
import { componentName, conditionOf, isTrouble, reasonOf } from '../kit/state/condition'
import { Badge, conditionTone, StateBadge } from '../kit/state/StateBadge'
import { useStream } from '../kit/state/useStream'
import { clockTime } from '../kit/text/format'
import { paths } from '../paths'
import classes from './StateBar.module.css'

/** One green line if everything is live; otherwise what is not, why, and a button that helps. */
export function StateBar() {
  const { t } = useTranslation()
  const canEdit = useCanEdit()
  const { items, status, since } = useStream(componentStream)
  const health = useQuery(healthQuery)
  const closed = useQuery({ queryKey: [maintenance.kind], queryFn: maintenance.read })
  const again = useMutation({ mutationFn: reapply })
  const troubled = items.filter(isTrouble)
  const off = items.filter((component) => conditionOf(component) === 'off').length
  const database = health.data?.database
  const databaseAway = database === 'away' || database === 'newer'
  const inMaintenance = closed.data?.value.enabled === true

  // Without a connection nothing on the page stays green: see the palette.
  useEffect(() => {
    document.documentElement.dataset.connection = status
  }, [status])

  if (status === 'lost') {
    return (
      <div className={classes.bar} data-tone="warn" role="status" aria-label={t('bar.label')}>
        <Badge tone="warn">{t('bar.lost', { time: clockTime(since) })}</Badge>
      </div>
    )
  }
  if (troubled.length === 0 && !databaseAway && !inMaintenance) {
    return (
      <div className={classes.bar} role="status" aria-label={t('bar.label')}>
        {items.length > 0 ? (
          <Badge tone="live">
            {t('bar.allLive', { count: items.length - off })}
            {off > 0 && t('bar.alsoOff', { count: off })}
          </Badge>
        ) : (
          <Badge tone="off">{t('bar.waiting')}</Badge>
        )}
      </div>
    )
  }
  const broken = databaseAway || troubled.some((one) => conditionTone[conditionOf(one)] === 'bad')
  return (
    <div className={classes.bar} data-tone={broken ? 'bad' : 'warn'} role="status" aria-label={t('bar.label')}>
      <ul>
        {databaseAway && (
          <li>
            <Badge tone="bad">{t('bar.database')}</Badge>
            <span className={classes.reason}>{t(database === 'newer' ? 'bar.databaseNewer' : 'bar.databaseText')}</span>
          </li>
        )}
        {troubled.map((component) => (
          <li key={component.name}>
            <Link to={paths.component(component.name)}>{componentName(component.name)}</Link>
            <StateBadge component={component} />
            <span className={classes.reason} title={reasonOf(component)}>
              {reasonOf(component)}
            </span>
          </li>
        ))}
        {inMaintenance && (
          <li>
            <Link to={paths.settings}>{t('bar.maintenance')}</Link>
            <Badge tone="warn">{t('on')}</Badge>
            <span className={classes.reason}>{t('bar.maintenanceText')}</span>
          </li>
        )}
      </ul>
      {canEdit && troubled.length > 0 && (
        <Button size="compact-sm" variant="default" loading={again.isPending} onClick={() => again.mutate()}>
          {t('bar.reapply')}
        </Button>
      )}
    </div>
  )
}
