import { Link } from '@tanstack/react-router'
import type { Thing } from '../../api/fault'
import { optionalText } from '../../i18n/i18n'
import { pathOfThing } from '../../paths'

/** A reference to something: its kind, and its name as a link. */
export function ThingLink({ thing, onGo }: { thing: Thing; onGo?: () => void }) {
  const to = pathOfThing(thing)
  return (
    <>
      {to ? (
        <Link to={to} onClick={onGo}>
          {thing.name}
        </Link>
      ) : (
        thing.name
      )}{' '}
      <span className="soft">{optionalText(`kinds.${thing.kind}`) ?? thing.kind}</span>
    </>
  )
}
