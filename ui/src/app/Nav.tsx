import { Link, useLocation } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { useTranslation } from 'react-i18next'
import { navigation } from './navigation'
import { paths } from './paths'
import classes from './Shell.module.css'
import { useCanEdit } from './session'

export function Nav({ onGo }: { onGo?: () => void }) {
  const { t } = useTranslation()
  const canEdit = useCanEdit()
  const nav = useRef<HTMLElement>(null)
  const { pathname } = useLocation()
  // The navigation is longer than most windows: where one is must be in sight.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page has another active link.
  useEffect(() => {
    nav.current?.querySelector('[data-active]')?.scrollIntoView({ block: 'nearest' })
  }, [pathname])
  return (
    <nav ref={nav} aria-label={t('nav.label')} className={classes.nav}>
      {navigation.map(({ area, items }) => (
        <div key={area}>
          {area && <div className={classes.area}>{t(`nav.${area}`)}</div>}
          {items
            .filter(({ adminOnly }) => canEdit || !adminOnly)
            .map(({ name, to, icon: Icon }) => (
              <Link
                key={name}
                to={to}
                onClick={onGo}
                className={classes.navLink}
                activeOptions={{ exact: to === paths.overview, includeSearch: false }}
                activeProps={{ 'data-active': true } as object}
              >
                <Icon size={17} stroke={1.7} aria-hidden />
                {t(`nav.${name}`)}
              </Link>
            ))}
        </div>
      ))}
    </nav>
  )
}
