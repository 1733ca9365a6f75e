import type { Backup } from '../../api/types'
import type { Tone } from '../../kit/state/Notice'

/** The state of a backup. Only a verified one is known to be usable. */
export type Standing = 'running' | 'failed' | 'proving' | 'proven' | 'unusable' | 'unproven'

export function standingOf({ status, proof, phase }: Pick<Backup, 'status' | 'proof' | 'phase'>): Standing {
  if (status === 'running' || (status === 'success' && phase)) return 'running'
  if (status === 'failed') return 'failed'
  if (!proof) return 'unproven'
  return proof.status === 'running' ? 'proving' : proof.status === 'proven' ? 'proven' : 'unusable'
}

export const standingTone: Record<Standing, Tone> = {
  running: 'warn',
  failed: 'bad',
  proving: 'warn',
  proven: 'live',
  unusable: 'bad',
  unproven: 'off',
}

/** The newest successful backup of this gateway. An uploaded one may be of another gateway. */
export const lastGood = (backups: readonly Backup[]) =>
  backups.find(({ status, uploaded }) => status === 'success' && !uploaded)

/** Milliseconds after which the last backup is too old: a day, plus the time for the next one. */
const tooOld = 26 * 3600_000

/** What is wrong with the backups as a whole, or null. */
export function careOf(backups: readonly Backup[], now: number): 'none' | 'old' | 'failed' | 'unusable' | null {
  const last = lastGood(backups)
  if (!last) return 'none'
  if (last.proof?.status === 'failed') return 'unusable'
  const newest = backups.find(({ uploaded, status }) => !uploaded && status !== 'running')
  if (newest?.status === 'failed') return 'failed'
  return now - Date.parse(last.started_at) > tooOld ? 'old' : null
}

/** The heights of bars, from 0.1 to 1, in proportion to their sizes. */
export function heights(sizes: readonly number[]): number[] {
  const most = Math.max(1, ...sizes)
  return sizes.map((size) => Math.max(0.1, size / most))
}
