import { type ReactNode, useEffect } from 'react'
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
  useEffect(() => {
    document.title = `${title} · ${t('product')}`
  }, [title, t])
  return (
    <div className={classes.page}>
      <header className={classes.header}>
        <div>
          <h1>{title}</h1>
          {lead && <p>{lead}</p>}
        </div>
        {actions && <div className={classes.actions}>{actions}</div>}
      </header>
      {children}
    </div>
  )
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
