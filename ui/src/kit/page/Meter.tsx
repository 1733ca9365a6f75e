import type { ReactNode } from 'react'
import classes from './Meter.module.css'

interface MeterProps {
  title: ReactNode
  value: string
  note: string
  /** The word that says what is wrong with the value, when something is. */
  alarm?: string | false
  children: ReactNode
}

/** A figure of now, with what there is to say or to see of it. */
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
