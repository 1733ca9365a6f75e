import { Link } from '@tanstack/react-router'
import classes from './Tabs.module.css'

/** The parts of a page, each with its own address. */
export function Tabs({ label, tabs }: { label: string; tabs: { to: string; label: string; exact?: boolean }[] }) {
  return (
    <nav className={classes.tabs} aria-label={label}>
      {tabs.map(({ to, label: text, exact }) => (
        <Link
          key={to}
          to={to}
          className={classes.tab}
          activeOptions={{ exact, includeSearch: false }}
          activeProps={{ 'data-active': true } as object}
        >
          {text}
        </Link>
      ))}
    </nav>
  )
}
