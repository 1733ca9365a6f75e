import type { License } from '../../api/types'
import type { Tone } from '../../kit/state/Notice'

/** Days before its end from which a license is about to expire. */
export const soon = 30

/** The status of a license; an active one may be about to expire. */
export type Standing = License['status'] | 'expiring'

export function standingOf({ status, days_left }: Pick<License, 'status' | 'days_left'>): Standing {
  return status === 'active' && days_left !== null && days_left <= soon ? 'expiring' : status
}

export const standingTone: Record<Standing, Tone> = {
  active: 'live',
  expiring: 'warn',
  expired: 'bad',
  invalid: 'bad',
  trial: 'off',
}

/** Whether an admin must act. */
export const needsCare = (license: Pick<License, 'status' | 'days_left'>) =>
  ['expiring', 'expired', 'invalid'].includes(standingOf(license))

type Limit = License['limits']['nodes']

/** The used share of a limit, from 0 to 1; null if there is no limit or the use is unknown. */
export function shareOf({ limit, used }: Pick<Limit, 'limit' | 'used'>): number | null {
  if (limit === null || used === null) return null
  if (limit === 0) return used > 0 ? 1 : 0
  return Math.min(1, used / limit)
}
