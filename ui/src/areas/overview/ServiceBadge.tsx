import { useTranslation } from 'react-i18next'
import type { Service } from '../../api/types'
import type { Tone } from '../../kit/Notice'
import { Badge } from '../../kit/StateBadge'

const tones: Record<Service['active'], Tone> = {
  active: 'live',
  activating: 'warn',
  inactive: 'off',
  failed: 'bad',
  not_installed: 'off',
  'kernel-loaded': 'live',
  'no-table': 'bad',
}

/** What a daemon does, and on hover why it failed. */
export function ServiceBadge({ active, detail }: Pick<Service, 'active' | 'detail'>) {
  const { t } = useTranslation('overview')
  return (
    <span title={detail || undefined}>
      <Badge tone={tones[active]}>{t(`services.states.${active}`)}</Badge>
    </span>
  )
}
