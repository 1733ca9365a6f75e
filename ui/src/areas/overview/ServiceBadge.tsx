import { IconHelpCircle } from '@tabler/icons-react'
import { useTranslation } from 'react-i18next'
import type { Service } from '../../api/types'
import { Notice, type Tone } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import classes from './Overview.module.css'

const tones: Record<Service['active'], Tone> = {
  active: 'live',
  activating: 'warn',
  inactive: 'off',
  failed: 'bad',
  not_installed: 'off',
  unknown: 'off',
  'kernel-loaded': 'live',
  'no-table': 'bad',
}

/** The state of a daemon, and on hover why it failed or is unknown. */
export function ServiceBadge({ active, detail }: Pick<Service, 'active' | 'detail'>) {
  const { t } = useTranslation('overview')
  return (
    <span title={detail || undefined}>
      <Badge tone={tones[active]} icon={active === 'unknown' ? IconHelpCircle : undefined}>
        {t(`services.states.${active}`)}
      </Badge>
    </span>
  )
}

/**
 * Why the state of some daemons is unknown. Each reason is shown once, because a failed query concerns many of them.
 */
export function UnknownServices({ services }: { services: Service[] }) {
  const { t } = useTranslation('overview')
  const reasons = new Set(services.filter(({ active }) => active === 'unknown').map(({ detail }) => detail))
  if (reasons.size === 0) return null
  return (
    <div className={classes.unknown}>
      <Notice tone="off">{[t('services.unknownStates'), ...reasons].join(' ')}</Notice>
    </div>
  )
}
