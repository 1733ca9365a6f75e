import 'uplot/dist/uPlot.min.css'
import { useComputedColorScheme } from '@mantine/core'
import { useEffect, useRef } from 'react'
import UPlot from 'uplot'

export interface PlotProps {
  /** Seconds since the epoch, and a value for each. */
  times: number[]
  values: (number | null)[]
  /** Further series, as part of the values or beside them: warnings and errors. */
  warn?: (number | null)[]
  bad?: (number | null)[]
  /** How many seconds the chart shows. */
  window: number
  /** The top of the scale. Without one, the scale grows with the values, but is never below `floor`. */
  max?: number
  floor?: number
  height: number
  label: string
  /** The scale uses powers of two, for bytes. */
  binary?: boolean
  /** Shows the time below the chart. */
  clock?: boolean
  format: (value: number) => string
}

const clockTicks = (_: UPlot, ticks: number[]) =>
  ticks.map((at) => new Date(at * 1000).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' }))

const powersOfTwo = Array.from({ length: 50 }, (_, power) => 2 ** power)

const color = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name)

export default function Plot(props: PlotProps) {
  const { times, values, warn, bad, window, max, floor = 1, height, label, clock = false, binary, format } = props
  const more = [warn && '--gw-warn', bad && '--gw-bad'].filter(Boolean).join(' ')
  const host = useRef<HTMLDivElement>(null)
  const plot = useRef<UPlot>(null)
  const scheme = useComputedColorScheme()

  // biome-ignore lint/correctness/useExhaustiveDependencies: a canvas does not follow CSS, so a new scheme redraws it.
  useEffect(() => {
    const element = host.current
    if (!element) return
    const colours = more.split(' ').filter(Boolean)
    const axis = {
      stroke: color('--gw-ink-soft'),
      grid: { stroke: color('--gw-line'), width: 1 },
      ticks: { show: false },
    }
    plot.current = new UPlot(
      {
        width: element.clientWidth,
        height,
        legend: { show: false },
        cursor: { show: false },
        padding: [8, 0, 8, 0],
        scales: { y: { range: (_, __, top) => [0, max ?? Math.max(top * 1.2, floor)] } },
        axes: [
          { ...axis, show: clock, size: 26, font: '11px Inter, sans-serif', space: 60, values: clockTicks },
          {
            ...axis,
            size: 44,
            gap: 4,
            font: '11px Inter, sans-serif',
            space: 22,
            ...(binary ? { incrs: powersOfTwo } : {}),
            values: (_, ticks) => ticks.map(format),
          },
        ],
        series: [
          {},
          { stroke: color('--gw-accent'), width: 1.5, fill: color('--gw-accent-tint'), points: { show: false } },
          ...colours.map((name) => ({ stroke: color(name), width: 1.5, points: { show: false } })),
        ],
      },
      [[], [], ...colours.map(() => [])],
      element,
    )
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }))
    observer.observe(element)
    return () => {
      observer.disconnect()
      plot.current?.destroy()
    }
  }, [height, max, floor, scheme, clock, binary, more])

  // biome-ignore lint/correctness/useExhaustiveDependencies: a redrawn chart needs its values again.
  useEffect(() => {
    const now = times.at(-1) ?? Date.now() / 1000
    plot.current?.setData([times, values, ...(warn ? [warn] : []), ...(bad ? [bad] : [])], true)
    plot.current?.setScale('x', { min: now - window, max: now })
  }, [times, values, warn, bad, window, height, max, floor, scheme, clock, binary])

  return <div ref={host} role="img" aria-label={label} />
}
