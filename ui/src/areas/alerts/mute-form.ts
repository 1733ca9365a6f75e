import type { Values } from '../../kit/form/fields'

export const spans = ['1', '8', '24', '168', '720'] as const

/** The form asks for a duration; the API takes the end time. */
export const muteShape = (now: () => number = Date.now) => ({
  read: (row: Values): Values => ({ ...row, hours: row.hours ?? '24' }),
  write: ({ kind, reason, hours }: Values): Values => ({
    kind,
    reason,
    until: new Date(now() + Number(hours) * 3_600_000).toISOString(),
  }),
})
