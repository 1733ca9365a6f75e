import { optionalText } from '../../i18n/i18n'
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
  return (
    <span title={detail ?? undefined}>
      <Badge tone={tones[active] ?? 'off'}>{optionalText(`overview:services.states.${active}`) ?? active}</Badge>
    </span>
  )
}
