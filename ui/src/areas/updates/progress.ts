import type { PackageVersion } from '../../api/types'
import { mayReload } from '../../chunk-reload'
import type { Tone } from '../../kit/state/Notice'

/** Milliseconds after which an upgrade takes longer than usual. */
export const usual = 2 * 60_000

type Store = Pick<Storage, 'getItem' | 'setItem'>

/** Whether a page that was loaded from one version must reload, because another one serves now. It does so once for each. */
export function mustReload(loaded: string | undefined, serving: string | undefined, storage: Store): boolean {
  if (!loaded || !serving || loaded === serving) return false
  return mayReload(serving, storage, 'gateway.reloaded-for-version')
}

export type Standing = 'current' | 'update' | 'security' | 'notInstalled' | 'unknown'

/** How a package stands to what apt has. */
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
