import './texts'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Meter } from '../../kit/page/Meter'
import { relative } from '../../kit/text/format'
import { paths } from '../../paths'
import { backupsQuery } from './resources'
import { Strip } from './Strip'
import { careOf, lastGood } from './standing'

/** The last backup at a glance: its age, and whether it has been verified. */
export function BackupMeter() {
  const { t } = useTranslation('backups')
  const { data } = useQuery(backupsQuery)
  if (!data) return null
  const now = Date.now()
  const last = lastGood(data)
  const care = careOf(data, now)
  const ago = (at: string) => relative(Date.parse(at), now, t('common:justNow'))
  return (
    <Meter
      title={<Link to={paths.backups}>{t('tile.title')}</Link>}
      value={last ? ago(last.started_at) : t('tile.none')}
      note={
        last?.proof?.status === 'proven' && last.proof.finished_at
          ? t('tile.proven', { when: ago(last.proof.finished_at) })
          : t('tile.unproven')
      }
      alarm={care !== null && t(`tile.care.${care}`)}
    >
      <Strip backups={data} />
    </Meter>
  )
}
