import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Badge } from '../../kit/state/StateBadge'
import { paths } from '../../paths'
import { byZone } from './layout'
import { isManaged, type Link as NetworkLink, toneOf } from './links'
import classes from './Picture.module.css'
import type { Rate } from './rates'
import type { ZoneCounts } from './useLinks'
import { addressMark, kindWords, rateWords, zoneWords } from './words'

export interface NetworkProps {
  links: NetworkLink[]
  rates: Record<string, Rate>
  counts: Map<string, ZoneCounts>
}

/** A list of what the picture shows, for narrow screens. */
export function LinkList({ links, rates, counts }: NetworkProps) {
  const { t } = useTranslation('network')
  return (
    <div className={classes.list}>
      {[...byZone(links)].map(([zone, members]) => (
        <section key={zone ?? ''} aria-label={zone ?? t('picture.noZone')}>
          <h3>{zoneWords(zone, counts.get(zone ?? ''), t)}</h3>
          <ul>
            {members.map((link) => (
              <li key={link.name}>
                <ListedLink link={link} rate={rates[link.name]} />
              </li>
            ))}
          </ul>
        </section>
      ))}
    </div>
  )
}

function ListedLink({ link, rate }: { link: NetworkLink; rate: Rate | undefined }) {
  const { t } = useTranslation('network')
  const { declared, name, addresses, state } = link
  return (
    <>
      <div className={classes.row}>
        <span className="mono">
          {declared ? (
            <Link to={paths.interface(declared.id)} search>
              {name}
            </Link>
          ) : (
            name
          )}
        </span>
        <Badge tone={toneOf(link)}>{t(`states.${state}`)}</Badge>
      </div>
      <div className="soft">{isManaged(link) ? kindWords(link, t) : t('picture.notDeclared')}</div>
      {addresses.map((address) => (
        <div key={address.text} className={classes.row}>
          <span className="mono">{address.text}</span>
          <span className="soft">{addressMark(address, t)}</span>
        </div>
      ))}
      {rate && <div className={classes.listRate}>{t('picture.arrows', rateWords(rate))}</div>}
    </>
  )
}
