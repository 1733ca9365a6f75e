import { useTranslation } from 'react-i18next'
import type { Tone } from '../../kit/Notice'
import { Badge } from '../../kit/StateBadge'

const tones: Record<string, Tone> = {
  active: 'live',
  'kernel-loaded': 'live',
  activating: 'warn',
  reloading: 'warn',
  deactivating: 'warn',
  'no-table': 'warn',
  failed: 'bad',
}

/** The state of a unit in systemd's words, with ours where there is one. */
export function ServiceBadge({ active, detail }: { active: string; detail?: string | null }) {
  const { t } = useTranslation('overview')
  return (
    <span title={detail ?? undefined}>
      <Badge tone={tones[active] ?? 'off'}>{t(`services.states.${active}`, { defaultValue: active })}</Badge>
    </span>
  )
}
