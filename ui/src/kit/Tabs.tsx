import { Link, useLocation } from '@tanstack/react-router'
import classes from './Tabs.module.css'

/** The parts of a page, each with its own address. One part's address may begin with another's: the longest counts. */
export function Tabs({ label, tabs }: { label: string; tabs: { to: string; label: string }[] }) {
  const { pathname } = useLocation()
  const here = tabs
    .filter(({ to }) => pathname === to || pathname.startsWith(`${to}/`))
    .reduce((longest, { to }) => (to.length > longest.length ? to : longest), '')
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
