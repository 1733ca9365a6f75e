/** What a form holds, by the names of its fields. */
export type Values = Record<string, unknown>

/** The fields of a form that differ from what it began with. */
export function differing(start: Values, now: Values): string[] {
  return Object.keys(start).filter((name) => JSON.stringify(start[name]) !== JSON.stringify(now[name]))
}
