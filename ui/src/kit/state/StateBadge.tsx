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
import type { Component } from '../../api/types'
import { type Condition, conditionOf } from './condition'
import type { Tone } from './Notice'
import classes from './StateBadge.module.css'

const icons = { live: IconCircleCheck, warn: IconAlertTriangle, bad: IconCircleX, off: IconCircleDashed }

interface BadgeProps {
  tone: Tone
  children: ReactNode
  icon?: ComponentType<IconProps>
  /** For what must not be overlooked. */
  filled?: boolean
}

/** A state: colour, icon and word, never colour alone. */
export function Badge({ tone, children, icon, filled }: BadgeProps) {
  const Icon = icon ?? icons[tone]
  return (
    <span className={classes.badge} data-tone={tone} data-filled={filled || undefined}>
      <Icon size={14} stroke={2} aria-hidden />
      {children}
    </span>
  )
}

export const conditionTone: Record<Condition, Tone> = {
  live: 'live',
  pending: 'warn',
  degraded: 'bad',
  down: 'bad',
  not_installed: 'off',
  off: 'off',
}

export function StateBadge({ component }: { component: Pick<Component, 'state' | 'daemon'> }) {
  const { t } = useTranslation()
  const condition = conditionOf(component)
  return (
    <Badge
      tone={conditionTone[condition]}
      icon={condition === 'pending' ? IconHourglass : undefined}
      filled={condition === 'down'}
    >
      {t(`state.${condition}`)}
    </Badge>
  )
}

export function OnOff({ on }: { on: boolean }) {
  const { t } = useTranslation()
  return <Badge tone={on ? 'live' : 'off'}>{t(on ? 'on' : 'off')}</Badge>
}
