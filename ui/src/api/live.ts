import { Fault } from './fault'

/** A list of live state that could not be read has a single entry with the reason. Throws it. */
export function live<T extends { error?: string }>(list: T[]): T[] {
  const message = list[0]?.error
  if (message) throw new Fault({ code: 'unavailable', message, status: 200 })
  return list
}
