/** The last hour of counters, as the gateway returns it. */
export interface History<P> {
  step_seconds: number
  points: readonly P[]
}

/** One value of a history as a chart takes it. The line breaks at missing steps, because they are unknown. */
export function lineOf<P extends { at: string }>({ points, step_seconds }: History<P>, of: (point: P) => number) {
  const times: number[] = []
  const values: (number | null)[] = []
  for (const point of points) {
    const time = Date.parse(point.at) / 1000
    const last = times.at(-1)
    if (last !== undefined && time - last > 1.5 * step_seconds) {
      times.push(last + step_seconds)
      values.push(null)
    }
    times.push(time)
    values.push(of(point))
  }
  return { times, values }
}

/** How many seconds a chart of the last hour shows, even with less data. */
export const hour = 3600

/** A rate per second, with one decimal below 10. */
export function rate(value: number): string {
  if (value === 0) return '0'
  return value >= 10 ? Math.round(value).toLocaleString('en') : value.toFixed(1)
}
