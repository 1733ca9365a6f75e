/** The last hour of counters as the gateway tells it. */
export interface History<P> {
  step_seconds: number
  points: readonly P[]
}

/** One value of a history as a chart takes it. Where a step is missing the line breaks: nobody knows what was there. */
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

const shortest = 300
const longest = 3600

/** How many seconds a chart shows: it widens as it fills, so that a daemon that just started is not an empty frame. */
export function windowOf(times: readonly number[]): number {
  return Math.min(Math.max((times.at(-1) ?? 0) - (times[0] ?? 0), shortest), longest)
}

/** So many a second: with a figure after the point while they are few. */
export function rate(value: number): string {
  if (value === 0) return '0'
  return value >= 10 ? Math.round(value).toLocaleString('en') : value.toFixed(1)
}
