/** The values of a form, by field name. */
export type Values = Record<string, unknown>

/** The fields whose values have changed. */
export function differing(start: Values, now: Values): string[] {
  return Object.keys(start).filter((name) => JSON.stringify(start[name]) !== JSON.stringify(now[name]))
}
