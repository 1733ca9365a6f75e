import { type KeyboardEvent, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { clockTime, count, exactTime } from '../../kit/text/format'
import classes from './Logs.module.css'
import type { Bar } from './log-logic'

/** What the bars count: all matching entries, the newest of them, or those shown on a live page. */
export type Counted = 'all' | 'newest' | 'shown'

interface HistogramProps {
  bars: Bar[]
  /** How many entries the bars count, and which. */
  loaded: number
  counted: Counted
  onRange: (from: number, to: number) => void
}

/**
 * The number of entries over time. Selecting a bar, or several with the mouse or Shift and the arrow keys, narrows the
 * period. All bars together are one tab stop.
 */
export function Histogram({ bars, loaded, counted, onRange }: HistogramProps) {
  const { t } = useTranslation('logs')
  const row = useRef<HTMLDivElement>(null)
  const [focused, setFocused] = useState(0)
  const [anchor, setAnchor] = useState<number | null>(null)
  const [end, setEnd] = useState<number | null>(null)
  const top = Math.max(1, ...bars.map(({ all }) => all))
  const at = Math.min(focused, bars.length - 1)
  const chosen = (index: number) =>
    anchor !== null && end !== null && index >= Math.min(anchor, end) && index <= Math.max(anchor, end)
  const take = (one: number, other: number) => {
    setAnchor(null)
    setEnd(null)
    const from = bars[Math.min(one, other)]
    const to = bars[Math.max(one, other)]
    if (from && to) onRange(from.from, to.to)
  }
  const move = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -bars.length, End: bars.length }[event.key]
    if (by === undefined) return
    event.preventDefault()
    const next = Math.max(0, Math.min(bars.length - 1, at + by))
    if (event.shiftKey) setAnchor(anchor ?? at)
    else setAnchor(null)
    setEnd(event.shiftKey ? next : null)
    setFocused(next)
    ;(row.current?.children[next] as HTMLElement | undefined)?.focus()
  }
  return (
    <figure className={classes.histogram}>
      <figcaption>
        <span>{t('histogram.title')}</span>
        <span className="soft">
          {t(`histogram.${counted}`, { count: loaded, number: count(loaded) })}{' '}
          <span className={classes.help}>{t('histogram.help')}</span>
        </span>
      </figcaption>
      <div
        ref={row}
        className={classes.bars}
        role="toolbar"
        aria-label={t('histogram.title')}
        onKeyDown={move}
        onPointerLeave={() => {
          setAnchor(null)
          setEnd(null)
        }}
      >
        {bars.map((bar, index) => (
          <button
            key={bar.from}
            type="button"
            tabIndex={index === at ? 0 : -1}
            data-chosen={chosen(index) || undefined}
            aria-label={t('histogram.bar', {
              from: exactTime(bar.from),
              to: clockTime(bar.to),
              number: count(bar.all),
              errors: count(bar.errors),
              warnings: count(bar.warnings),
            })}
            title={`${exactTime(bar.from)} – ${clockTime(bar.to)}: ${count(bar.all)}`}
            onFocus={() => setFocused(index)}
            onPointerDown={() => {
              setAnchor(index)
              setEnd(index)
            }}
            onPointerEnter={() => anchor !== null && setEnd(index)}
            onClick={() => take(anchor ?? index, index)}
            onPointerUp={() => anchor !== null && anchor !== index && take(anchor, index)}
          >
            <span style={{ height: `${(100 * (bar.all - bar.errors - bar.warnings)) / top}%` }} />
            <span data-level="warn" style={{ height: `${(100 * bar.warnings) / top}%` }} />
            <span data-level="error" style={{ height: `${(100 * bar.errors) / top}%` }} />
          </button>
        ))}
      </div>
      <div className={classes.scale} aria-hidden>
        <span>{exactTime(bars[0]?.from ?? 0)}</span>
        <span>{exactTime(bars.at(-1)?.to ?? 0)}</span>
      </div>
    </figure>
  )
}
