import { NumberInput, Switch, TextInput } from '@mantine/core'
import { useTranslation } from 'react-i18next'
import type { Intent } from '../../api/client'
import { Fold } from '../page/Fold'
import { boundedSeconds, confirmTime } from './intent'

interface IntentLineProps {
  intent: Intent
  onIntent: (intent: Intent) => void
  /** The change is applied, so it can be confirmed. */
  confirmable: boolean
}

/** The reason for a change, and whether it is reverted unless confirmed. */
export function IntentLine({ intent, onIntent, confirmable }: IntentLineProps) {
  const { t } = useTranslation()
  const { reason, within } = intent
  const said = [within > 0 && t('intent.reverts', { seconds: within }), reason].filter(Boolean).join(' · ')
  return (
    <Fold title={t(confirmable ? 'intent.open' : 'intent.openReason')} said={said}>
      <TextInput
        label={t('intent.reason.label')}
        description={t('intent.reason.help')}
        value={reason}
        maxLength={250}
        onChange={(event) => onIntent({ ...intent, reason: event.currentTarget.value })}
      />
      {confirmable && (
        <Switch
          label={t('intent.confirm.label')}
          description={t('intent.confirm.help')}
          checked={within > 0}
          onChange={(event) => onIntent({ ...intent, within: event.currentTarget.checked ? confirmTime.usual : 0 })}
        />
      )}
      {confirmable && within > 0 && (
        <NumberInput
          label={t('intent.within.label')}
          value={within}
          min={confirmTime.min}
          max={confirmTime.max}
          allowDecimal={false}
          onBlur={(event) => onIntent({ ...intent, within: boundedSeconds(event.currentTarget.value) })}
          onChange={(value) => Number(value) > 0 && onIntent({ ...intent, within: Number(value) })}
          maw={200}
        />
      )}
    </Fold>
  )
}
