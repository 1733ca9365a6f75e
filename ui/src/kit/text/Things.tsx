import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { Thing } from '../../api/fault'
import { count } from './format'
import { ThingLink } from './ThingLink'

/** How many to name; the rest are counted. */
const shown = 5

interface ThingsProps {
  things: readonly Thing[]
  className?: string
  onGo?: () => void
  /** The list with all of them. */
  all?: { to: string; q: string }
}

/** The users or dependents of something. */
export function Things({ things, className, onGo, all }: ThingsProps) {
  const { t } = useTranslation()
  const more = things.length - shown
  const rest = t('things.more', { count: more, number: count(more) })
  return (
    <ul className={className}>
      {things.slice(0, shown).map((thing) => (
        <li key={thing.id}>
          <ThingLink thing={thing} onGo={onGo} />
        </li>
      ))}
      {more > 0 && (
        <li>
          {all ? (
            <Link to={all.to} search={{ q: all.q } as never} onClick={onGo}>
              {rest}
            </Link>
          ) : (
            rest
          )}
        </li>
      )}
    </ul>
  )
}
