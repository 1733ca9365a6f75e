import type { ReactNode } from 'react'
import classes from './Empty.module.css'
import { Panel } from './Page'

/** A list without entries: what the thing is, and how to make the first one. */
export function Empty({ title, text, action }: { title: string; text: string; action?: ReactNode }) {
  return (
    <Panel>
      <div className={classes.empty}>
        <h2>{title}</h2>
        <p>{text}</p>
        {action}
      </div>
    </Panel>
  )
}
