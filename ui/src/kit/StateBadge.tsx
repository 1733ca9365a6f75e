import {
  IconAlertTriangle,
  IconCircleCheck,
  IconCircleDashed,
  IconCircleX,
  IconHourglass,
  type IconProps,
} from '@tabler/icons-react'
import type { ComponentType, ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import type { ComponentState } from '../api/client'
import type { Tone } from './Notice'
import classes from './StateBadge.module.css'

const icons = { live: IconCircleCheck, warn: IconAlertTriangle, bad: IconCircleX, off: IconCircleDashed }

/** How something is: colour, icon and word, never colour alone. */
export function Badge({ tone, children, icon }: { tone: Tone; children: ReactNode; icon?: ComponentType<IconProps> }) {
  const Icon = icon ?? icons[tone]
  return (
    <span className={classes.badge} data-tone={tone}>
      <Icon size={14} stroke={2} aria-hidden />
      {children}
    </span>
  )
}

export const stateTone: Record<ComponentState, Tone> = {
  live: 'live',
  pending: 'warn',
  degraded: 'bad',
  not_installed: 'off',
}

export function StateBadge({ state }: { state: ComponentState }) {
  const { t } = useTranslation()
  return (
    <Badge tone={stateTone[state]} icon={state === 'pending' ? IconHourglass : undefined}>
      {t(`state.${state}`)}
    </Badge>
  )
}

/** A yes or no in a list. */
export function OnOff({ on }: { on: boolean }) {
  const { t } = useTranslation()
  return <Badge tone={on ? 'live' : 'off'}>{t(on ? 'on' : 'off')}</Badge>
}
