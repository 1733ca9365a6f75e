import { notifications } from '@mantine/notifications'
import { IconAlertTriangle, IconCheck, IconX } from '@tabler/icons-react'
import { createElement } from 'react'
import type { Applied } from '../../api/client'
import { toFault } from '../../api/fault'
import { componentStream } from '../../api/streams'
import i18n from '../../i18n/i18n'
import { componentName, conditionOf } from './condition'
import type { Tone } from './Notice'

const looks = {
  live: { color: 'var(--gw-live)', icon: IconCheck },
  warn: { color: 'var(--gw-warn)', icon: IconAlertTriangle },
  bad: { color: 'var(--gw-bad)', icon: IconX },
}

/**
 * Shows the result of the last action. There is only one toast, so that an old failure does not stay next to a success.
 */
export function toast(tone: Exclude<Tone, 'off'>, title: string, message = '') {
  const { color, icon } = looks[tone]
  notifications.clean()
  notifications.show({
    title,
    message,
    color,
    withBorder: true,
    closeButtonProps: { 'aria-label': i18n.t('close') },
    icon: createElement(icon, { size: 16 }),
    autoClose: tone === 'live' ? 4000 : 10_000,
  })
}

/** Says that a change was stored, and where it is not live. */
export function toastApplied(title: string, applied: Applied[]) {
  const waiting = applied.filter(({ state }) => state !== 'live')
  if (waiting.length === 0) return toast('live', title, applied.length > 0 ? i18n.t('apply.live') : '')
  const known = new Map(componentStream.snapshot().items.map(({ name, daemon }) => [name as string, daemon]))
  const parts = waiting.map(({ component, state }) => {
    const condition = conditionOf({ state, daemon: known.get(component) ?? 'running' })
    return i18n.t(`apply.because.${condition}`, { name: componentName(component) })
  })
  toast('warn', title, i18n.t('apply.notLive', { parts: parts.join(', ') }))
}

export function toastFault(cause: unknown) {
  const fault = toFault(cause)
  const fields = Object.entries(fault.fields).map(([field, message]) => `${field}: ${message}`)
  toast('bad', fault.message, fields.join(' '))
}
