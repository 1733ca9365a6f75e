import classes from './Sparkline.module.css'

/** The latest values as a line that fills from the right. A figure next to it shows the newest. */
export function Sparkline({ values, slots }: { values: readonly number[]; slots: number }) {
  const top = Math.max(...values, 1)
  const start = slots - values.length
  const points = values.map((value, index) => `${start + index},${(15 - (value / top) * 13).toFixed(1)}`).join(' ')
  return (
    <svg className={classes.spark} viewBox={`0 0 ${slots - 1} 16`} preserveAspectRatio="none" aria-hidden>
      <line x1="0" x2={slots - 1} y1="15" y2="15" />
      <polyline points={points} />
    </svg>
  )
}
