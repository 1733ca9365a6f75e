import { useTranslation } from 'react-i18next'
import type { StreamStatus } from '../../api/stream'
import { clockTime } from '../text/format'
import classes from './LiveMark.module.css'
import { Badge } from './StateBadge'

/** Whether data is still arriving: a dot if so, words if not. */
export function LiveMark({ status, since }: { status: StreamStatus; since: number }) {
  const { t } = useTranslation()
  if (status === 'connecting') return <Badge tone="off">{t('stream.connecting')}</Badge>
  if (status === 'lost') return <Badge tone="warn">{t('stream.lost', { time: clockTime(since) })}</Badge>
  return (
    <span className={classes.live} title={t('stream.live')}>
      <span className="visually-hidden">{t('stream.live')}</span>
    </span>
  )
}
