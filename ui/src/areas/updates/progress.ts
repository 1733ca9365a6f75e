import type { PackageVersion } from '../../api/types'
import { mayReload } from '../../chunk-reload'
import type { Tone } from '../../kit/state/Notice'

/** Milliseconds after which an upgrade takes longer than usual. */
export const usual = 2 * 60_000

type Store = Pick<Storage, 'getItem' | 'setItem'>

/**
 * Whether to reload a page that was loaded from another version than the one running now. True at most once per
 * version.
 */
export function mustReload(loaded: string | undefined, serving: string | undefined, storage: Store): boolean {
  if (!loaded || !serving || loaded === serving) return false
  return mayReload(serving, storage, 'gateway.reloaded-for-version')
}

export type Standing = 'current' | 'update' | 'security' | 'notInstalled' | 'unknown'

/** The state of a package compared to apt. */
export function standingOf({ installed, available, upgradable, security }: PackageVersion): Standing {
  if (!installed) return 'notInstalled'
  if (!available) return 'unknown'
  if (!upgradable) return 'current'
  return security ? 'security' : 'update'
}

export const standingTone: Record<Standing, Tone> = {
  current: 'live',
  update: 'warn',
  security: 'bad',
  notInstalled: 'off',
  unknown: 'off',
}
