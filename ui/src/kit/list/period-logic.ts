/** Quick choices of a period in local time; null means no bound. */
export function periods(now: Date) {
  const midnight = (daysAgo: number) =>
    new Date(now.getFullYear(), now.getMonth(), now.getDate() - daysAgo, 0, 0, 0).getTime()
  return [
    { name: 'hour', from: now.getTime() - 3_600_000, to: null },
    { name: 'today', from: midnight(0), to: null },
    { name: 'yesterday', from: midnight(1), to: midnight(0) },
    { name: 'week', from: now.getTime() - 7 * 24 * 3_600_000, to: null },
    { name: 'all', from: null, to: null },
  ] as const
}
