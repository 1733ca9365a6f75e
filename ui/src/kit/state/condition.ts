import type { ComponentState } from '../../api/client'
import type { Component } from '../../api/types'
import i18n, { optionalText } from '../../i18n/i18n'

/** The state of a component for its users: its daemon counts more than its configuration. */
export type Condition = ComponentState | 'down' | 'off'

export function conditionOf({ state, daemon }: Pick<Component, 'state' | 'daemon'>): Condition {
  if (state === 'not_installed') return state
  if (daemon === 'down') return 'down'
  return daemon === 'off' && state === 'live' ? 'off' : state
}

/** Whether it needs attention or is still pending. */
export const isTrouble = (component: Component) => !['live', 'off'].includes(conditionOf(component))

/** The console's name for a component. */
export const componentName = (name: string) => optionalText(`component.${name}`) ?? name

/** What does not work, and why. */
export function reasonOf(component: Component): string {
  const condition = conditionOf(component)
  const loss = condition === 'down' ? (optionalText(`down.${component.name}`) ?? i18n.t('down.other')) : ''
  return [loss, component.last_error].filter(Boolean).join(' ') || i18n.t(`bar.${condition}`)
}
