import { useTranslation } from 'react-i18next'
import type { FieldSpec } from '../../kit/fields'
import { Panel } from '../../kit/Page'
import { SettingsForm } from '../../kit/ResourceForm'
import { radiusSettings } from './resources'

const fields: FieldSpec[] = [
  { name: 'enabled', type: 'switch' },
  { name: 'listen_addresses', type: 'list' },
  { name: 'auth_port', type: 'number', required: true, min: 1024, max: 65_535 },
  { name: 'acct_port', type: 'number', required: true, min: 1024, max: 65_535 },
]

export default function Settings() {
  const { t } = useTranslation('radius')
  return (
    <Panel title={t('settings.title')}>
      <SettingsForm singleton={radiusSettings} text="radius:settings" fields={fields} />
    </Panel>
  )
}
