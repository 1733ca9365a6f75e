import type { PackageVersion, Upgrade, UpgradeStep } from '../../api/types'
import { mayReload } from '../../chunk-reload'
import type { Tone } from '../../kit/Notice'

/** Milliseconds after which an upgrade takes longer than usual. */
export const usual = 2 * 60_000

type Store = Pick<Storage, 'getItem' | 'setItem'>

/**
 * When this browser first saw an upgrade run. The clock of the gateway may differ from the browser's, so its own times say
 * nothing about how long someone has waited. A reload in the middle does not start the wait again.
 */
export function firstSeen(id: string, storage: Store, now: number): number {
  try {
    const [seen, at] = (storage.getItem('gateway.upgrade') ?? '').split(' ')
    if (seen === id && Number(at) > 0) return Number(at)
    storage.setItem('gateway.upgrade', `${id} ${now}`)
  } catch {
    // Without storage the wait starts with the page.
  }
  return now
}

/** Whether a page that was loaded from one version must reload, because another one serves now. It does so once for each. */
export function mustReload(loaded: string | undefined, serving: string | undefined, storage: Store): boolean {
  if (!loaded || !serving || loaded === serving) return false
  return mayReload(serving, storage, 'gateway.reloaded-for-version')
}

export const upgradeTone: Record<Upgrade['state'], Tone> = {
  none: 'off',
  running: 'warn',
  done: 'live',
  refused: 'warn',
  taken_back: 'warn',
  stuck: 'bad',
}

export const stepTone: Record<UpgradeStep['state'], Tone> = {
  running: 'warn',
  done: 'live',
  failed: 'bad',
  interrupted: 'off',
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
