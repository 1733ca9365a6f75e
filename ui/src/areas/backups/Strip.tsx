import { useTranslation } from 'react-i18next'
import type { Backup } from '../../api/types'
import { bytes } from '../../kit/text/format'
import classes from './Backups.module.css'
import { heights, standingOf, standingTone } from './standing'

/** The backups as bars, oldest first: their size and state. */
export function Strip({ backups }: { backups: readonly Backup[] }) {
  const { t } = useTranslation('backups')
  const shown = backups.slice(0, 30).reverse()
  if (shown.length < 2) return null // nothing to compare
  const tall = heights(shown.map(({ size }) => size))
  return (
    <div className={classes.strip} role="img" aria-label={t('strip', { count: shown.length })}>
      {shown.map((backup, i) => (
        <span
          key={backup.id}
          data-tone={standingTone[standingOf(backup)]}
          style={{ height: `${100 * (tall[i] ?? 0)}%` }}
          title={`${backup.file} · ${bytes(backup.size)}`}
        />
      ))}
    </div>
  )
}
