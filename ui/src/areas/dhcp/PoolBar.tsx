import { useTranslation } from 'react-i18next'
import type { DhcpUsage } from '../../api/types'
import { count } from '../../kit/text/format'
import classes from './Dhcp.module.css'

/** Above this share, a pool will soon be full. */
const tight = 0.9

/** How full the range of a subnet is. */
export function PoolBar({ usage }: { usage: DhcpUsage | undefined }) {
  const { t } = useTranslation('dhcp')
  if (!usage) return <span className="soft">–</span>
  const { size, leased, declined } = usage
  const share = (part: number) => `${size > 0 ? (100 * part) / size : 0}%`
  const full = leased + declined >= tight * size
  const words = t('pool.words', { leased: count(leased), size: count(size) })
  const label = [words, declined > 0 && t('pool.declined', { count: declined }), full && t('pool.full')]
    .filter(Boolean)
    .join(', ')
  return (
    <span className={classes.pool} title={label}>
      <span className={classes.bar} role="img" aria-label={label} data-full={full || undefined}>
        <span style={{ width: share(leased) }} />
        <span style={{ width: share(declined) }} data-declined />
      </span>
      <span className={classes.figures}>
        {words}
        {full && <b> {t('pool.full')}</b>}
      </span>
    </span>
  )
}
