import './texts'
import { useTranslation } from 'react-i18next'
import type { AlertEvent } from '../../api/types'
import type { Tone } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'

export type Severity = AlertEvent['severity']

export const severities: readonly Severity[] = ['critical', 'error', 'warning', 'info']

const tones: Record<Severity, Tone> = { info: 'off', warning: 'warn', error: 'bad', critical: 'bad' }

/** The severity of an alert, or that it is resolved. */
export function SeverityBadge({ severity, resolved }: { severity: Severity; resolved?: boolean }) {
  const { t } = useTranslation('alerts')
  if (resolved) return <Badge tone="live">{t('resolved')}</Badge>
  return (
    <Badge tone={tones[severity]} filled={severity === 'critical'}>
      {t(`severity.${severity}`)}
    </Badge>
  )
}
