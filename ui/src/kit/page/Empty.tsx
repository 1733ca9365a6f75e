import type { ReactNode } from 'react'
import classes from './Empty.module.css'
import { Panel } from './Page'

interface EmptyProps {
  title: string
  text: string
  action?: ReactNode
  /** It is inside an existing panel. */
  inPanel?: boolean
}

/** A list without entries: what the entries are, and how to create the first one. */
export function Empty({ title, text, action, inPanel = false }: EmptyProps) {
  const content = (
    <div className={classes.empty}>
      <h2>{title}</h2>
      <p>{text}</p>
      {action}
    </div>
  )
  return inPanel ? content : <Panel>{content}</Panel>
}
