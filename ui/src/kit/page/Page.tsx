import { type ReactNode, type RefObject, useEffect, useRef } from 'react'
import { useTranslation } from 'react-i18next'
import classes from './Page.module.css'

interface PageProps {
  title: string
  lead?: ReactNode
  actions?: ReactNode
  children: ReactNode
}

export function Page({ title, lead, actions, children }: PageProps) {
  const { t } = useTranslation()
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} · ${t('product')}`
  }, [title, t])
  useArrival(heading)
  return (
    <div className={classes.page}>
      <header className={classes.header}>
        <div>
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {lead && <p>{lead}</p>}
        </div>
        {actions && <div className={classes.actions}>{actions}</div>}
      </header>
      {children}
    </div>
  )
}

let arrived = false

/**
 * Navigating to another page focuses its title: it is read out, and the next Tab goes into the page. The first page
 * keeps the browser's order. If the page or a drawer has set the focus, it stays there.
 */
function useArrival(heading: RefObject<HTMLElement | null>) {
  useEffect(() => {
    const focused = document.activeElement
    if (arrived && (focused === document.body || focused?.closest('nav')))
      heading.current?.focus({ preventScroll: true })
    arrived = true
  }, [heading])
}

interface PanelProps {
  title?: ReactNode
  aside?: ReactNode
  children: ReactNode
  /** No padding around the content, for tables. */
  flush?: boolean
}

export function Panel({ title, aside, children, flush }: PanelProps) {
  return (
    <section className={classes.panel}>
      {title && (
        <header className={classes.panelHeader}>
          <h2>{title}</h2>
          {aside}
        </header>
      )}
      <div className={flush ? classes.flush : classes.panelBody}>{children}</div>
    </section>
  )
}

/** Names and values below each other. */
export function Facts({ facts }: { facts: [label: string, value: ReactNode][] }) {
  return (
    <dl className={classes.facts}>
      {facts.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}
