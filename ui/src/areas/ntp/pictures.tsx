import { useTranslation } from 'react-i18next'
import { offset as text } from '../../kit/text/format'
import classes from './pictures.module.css'

/** The last eight polls, oldest first; filled if answered. */
export function ReachPicture({ reach }: { reach: number }) {
  const { t } = useTranslation('ntp')
  const polls = [7, 6, 5, 4, 3, 2, 1, 0].map((bit) => ({ bit, answered: ((reach >> bit) & 1) === 1 }))
  const answered = polls.filter((poll) => poll.answered).length
  const label = t('sources.reachText', { answered })
  return (
    <span className={classes.reach} role="img" aria-label={label} title={label}>
      {polls.map(({ bit, answered: yes }) => (
        <span key={bit} data-yes={yes || undefined} />
      ))}
    </span>
  )
}

interface OffsetProps {
  offset: number
  error: number
  /** The largest value of all sources: they share one scale. */
  widest: number
}

/** Our clock's offset from the source. The middle means no offset; the bar is the uncertainty. */
export function OffsetPicture({ offset, error, widest }: OffsetProps) {
  const x = (seconds: number) => 50 + (seconds / widest) * 48
  const left = Math.max(0, x(offset - error))
  const right = Math.min(100, x(offset + error))
  const label = `${text(offset)} ± ${text(error, false)}`
  return (
    <svg className={classes.offset} viewBox="0 0 100 16" preserveAspectRatio="none" role="img" aria-label={label}>
      <title>{label}</title>
      <line x1="0" x2="100" y1="8" y2="8" className={classes.axis} />
      <line x1="50" x2="50" y1="2" y2="14" className={classes.zero} />
      <rect x={left} width={Math.max(right - left, 0.8)} y="5" height="6" className={classes.error} />
      <line x1={x(offset)} x2={x(offset)} y1="2" y2="14" className={classes.mark} />
    </svg>
  )
}
