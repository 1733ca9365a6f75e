import { useTranslation } from 'react-i18next'
import type { StreamStatus } from '../api/stream'
import { clockTime } from './format'
import { Badge } from './StateBadge'

/** Whether what one sees is still arriving, and since when it is not. */
export function LiveMark({ status, since }: { status: StreamStatus; since: number }) {
  const { t } = useTranslation()
  if (status === 'live') return <Badge tone="live">{t('stream.live')}</Badge>
  if (status === 'connecting') return <Badge tone="off">{t('stream.connecting')}</Badge>
  return <Badge tone="warn">{t('stream.lost', { time: clockTime(since) })}</Badge>
}
