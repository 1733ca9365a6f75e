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
 * On another page the focus is on its title: it is read out, and the next Tab goes into the page. The first page keeps the browser's own
 * order, and what the page or a drawer over it has focused stays.
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
  /** The content reaches the edge, as tables do. */
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

/** Names and values, one under the other. */
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
