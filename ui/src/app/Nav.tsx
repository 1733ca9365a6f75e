import { UnstyledButton } from '@mantine/core'
import { useLocalStorage } from '@mantine/hooks'
import { IconChevronRight } from '@tabler/icons-react'
import { Link, useLocation } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { useTranslation } from 'react-i18next'
import { useCanEdit } from '../api/session'
import { paths } from '../paths'
import { navigation } from './navigation'
import classes from './Shell.module.css'

/** The areas and their pages. As a rail it shows only icons, with the names on hover. */
export function Nav({ onGo, rail }: { onGo?: () => void; rail?: boolean }) {
  const { t } = useTranslation()
  const canEdit = useCanEdit()
  const nav = useRef<HTMLElement>(null)
  const { pathname } = useLocation()
  const [folded, setFolded] = useLocalStorage<string[]>({
    key: 'gateway-nav-folded',
    defaultValue: [],
    getInitialValueInEffect: false,
  })
  // The navigation is longer than most windows: keep the current page's link in view.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page has another active link.
  useEffect(() => {
    nav.current?.querySelector('[data-active]')?.scrollIntoView({ block: 'nearest' })
  }, [pathname])
  return (
    <nav ref={nav} aria-label={t('nav.label')} className={classes.nav}>
      {navigation.map(({ area, items }) => {
        const here = items.some(({ to }) => pathname.startsWith(to))
        const open = !area || here || !folded.includes(area)
        return (
          <div key={area}>
            {area && (
              <UnstyledButton
                className={classes.area}
                aria-expanded={open}
                disabled={here}
                onClick={() => setFolded(open ? [...folded, area] : folded.filter((one) => one !== area))}
              >
                <span>{t(`nav.${area}`)}</span>
                <IconChevronRight size={13} className={classes.fold} aria-hidden data-open={open || undefined} />
              </UnstyledButton>
            )}
            {open &&
              items
                .filter(({ adminOnly }) => canEdit || !adminOnly)
                .map(({ name, to, icon: Icon }) => (
                  <Link
                    key={name}
                    to={to}
                    title={rail ? t(`nav.${name}`) : undefined}
                    onClick={onGo}
                    className={classes.navLink}
                    activeOptions={{ exact: to === paths.overview, includeSearch: false }}
                    activeProps={{ 'data-active': true } as object}
                  >
                    <Icon size={17} stroke={1.7} aria-hidden />
                    <span>{t(`nav.${name}`)}</span>
                  </Link>
                ))}
          </div>
        )
      })}
    </nav>
  )
}
