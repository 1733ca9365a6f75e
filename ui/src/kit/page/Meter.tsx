import type { ReactNode } from 'react'
import classes from './Meter.module.css'

interface MeterProps {
  title: ReactNode
  value: string
  note: string
  /** A word for what is wrong with the value, if anything. */
  alarm?: string | false
  children: ReactNode
}

/** A current figure, with a note and a picture. */
export function Meter({ title, value, note, alarm, children }: MeterProps) {
  return (
    <section className={classes.meter}>
      <h2>{title}</h2>
      <div className={classes.value} data-warn={alarm ? true : undefined}>
        {value}
        {alarm && <span>{alarm}</span>}
      </div>
      <div className={classes.note}>{note}</div>
      <div className={classes.picture}>{children}</div>
    </section>
  )
}
