import { Link, useLocation } from '@tanstack/react-router'
import classes from './Tabs.module.css'

export interface Tab {
  to: string
  label: string
}

/** The tab that a path belongs to. One tab's path may start with another's: the longest match wins. */
export function tabOf<T extends Tab>(pathname: string, tabs: readonly T[]): T | undefined {
  return tabs
    .filter(({ to }) => pathname === to || pathname.startsWith(`${to}/`))
    .reduce<T | undefined>((longest, tab) => (tab.to.length > (longest?.to.length ?? 0) ? tab : longest), undefined)
}

/** The parts of a page, each with its own path. */
export function Tabs({ label, tabs }: { label: string; tabs: readonly Tab[] }) {
  const { pathname } = useLocation()
  const here = tabOf(pathname, tabs)?.to
  return (
    <nav className={classes.tabs} aria-label={label}>
      {tabs.map(({ to, label: text }) => (
        <Link
          key={to}
          to={to}
          className={classes.tab}
          activeOptions={{ exact: true, includeSearch: false }}
          data-active={to === here || undefined}
          aria-current={to === here ? 'page' : undefined}
        >
          {text}
        </Link>
      ))}
    </nav>
  )
}
