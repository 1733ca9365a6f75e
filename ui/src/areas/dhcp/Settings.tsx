import { useTranslation } from 'react-i18next'
import { dhcpSettings } from '../../api/resources'
import type { FieldSpec } from '../../kit/form/fields'
import { SettingsForm } from '../../kit/form/ResourceForm'
import { Panel } from '../../kit/page/Page'

const fields: FieldSpec[] = [
  { name: 'enabled', type: 'switch' },
  { name: 'default_lease_seconds', type: 'span', required: true, min: 60, max: 31_536_000 },
  { name: 'max_lease_seconds', type: 'span', required: true, min: 60, max: 31_536_000 },
]

export default function Settings() {
  const { t } = useTranslation('dhcp')
  return (
    <Panel title={t('settings.title')}>
      <SettingsForm singleton={dhcpSettings} text="dhcp:settings" fields={fields} />
    </Panel>
  )
}
