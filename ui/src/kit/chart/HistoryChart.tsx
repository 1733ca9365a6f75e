import { type ReactNode, useMemo } from 'react'
import { Chart } from './Chart'
import classes from './HistoryChart.module.css'
import { type History, hour, lineOf } from './history'

interface HistoryChartProps<P> {
  title: string
  history: History<P>
  of: (point: P) => number
  /** Formats the newest value, and the values on the scale. */
  now: (value: number) => string
  scale?: (value: number) => string
  /** The top of the scale, if fixed. */
  max?: number
  binary?: boolean
}

/** One value over the last hour, with its newest value. */
export function HistoryChart<P extends { at: string }>(props: HistoryChartProps<P>) {
  const { title, history, of, now, scale = String, max, binary } = props
  // biome-ignore lint/correctness/useExhaustiveDependencies: `of` always reads the same value of a point.
  const { times, values } = useMemo(() => lineOf(history, of), [history])
  const last = values.at(-1)
  return (
    <figure className={classes.figure}>
      <figcaption>
        {title} <b>{typeof last === 'number' ? now(last) : '–'}</b>
      </figcaption>
      <Chart
        label={title}
        times={times}
        values={values}
        window={hour}
        max={max}
        binary={binary}
        height={150}
        clock
        format={scale}
      />
    </figure>
  )
}

/** Several charts side by side, if there is room. */
export function Charts({ children }: { children: ReactNode }) {
  return <div className={classes.charts}>{children}</div>
}
