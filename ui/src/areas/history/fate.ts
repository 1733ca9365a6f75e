import type { ChangeSet } from '../../api/types'
import i18n from '../../i18n/i18n'
import { deedsOf } from '../../kit/change/words'
import { componentName } from '../../kit/state/condition'
import type { Tone } from '../../kit/state/Notice'

/** What a change set did or, until that is known, which components it concerns. */
export function deedsOrComponents(set: Pick<ChangeSet, 'kinds'> | undefined, components: readonly string[]): string {
  if (set) return deedsOf(set.kinds)
  return i18n.t('history:bar.plain', { components: components.map(componentName).join(', ') })
}

export type Fate = 'waiting' | 'confirmed' | 'taken_back' | 'reverted' | 'none'

/** The fate of a change set. A later revert counts more than the confirmation. */
export function fateOf({ state, reverted_by }: Pick<ChangeSet, 'state' | 'reverted_by'>): Fate {
  if (state === 'taken_back' || state === 'waiting') return state
  return reverted_by ? 'reverted' : state
}

export const fateTones: Record<Fate, Tone> = {
  waiting: 'warn',
  confirmed: 'live',
  taken_back: 'off',
  reverted: 'off',
  none: 'off',
}
