import type { ComponentState } from '../../api/client'
import type { Component } from '../../api/types'
import i18n, { optionalText } from '../../i18n/i18n'

/** How a component is for the people who use it: what its daemon does counts before what is stored. */
export type Condition = ComponentState | 'down' | 'off'

export function conditionOf({ state, daemon }: Pick<Component, 'state' | 'daemon'>): Condition {
  if (state === 'not_installed') return state
  if (daemon === 'down') return 'down'
  return daemon === 'off' && state === 'live' ? 'off' : state
}

/** Whether it needs attention, or patience. */
export const isTrouble = (component: Component) => !['live', 'off'].includes(conditionOf(component))

/** What the console calls a component. */
export const componentName = (name: string) => optionalText(`component.${name}`) ?? name

/** What people lose, and why. */
export function reasonOf(component: Component): string {
  const condition = conditionOf(component)
  const loss = condition === 'down' ? (optionalText(`down.${component.name}`) ?? i18n.t('down.other')) : ''
  return [loss, component.last_error].filter(Boolean).join(' ') || i18n.t(`bar.${condition}`)
}
