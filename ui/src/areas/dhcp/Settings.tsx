import { useTranslation } from 'react-i18next'
import { dhcpSettings } from '../../api/resources'
import type { Fields } from '../../kit/form/fields'
import { SettingsForm } from '../../kit/form/ResourceForm'
import { Panel } from '../../kit/page/Page'

const fields: Fields<'dhcp.settings'> = [
  { name: 'enabled', type: 'switch' },
  { name: 'default_lease_seconds', type: 'span', required: true },
  { name: 'max_lease_seconds', type: 'span', required: true },
]

export default function Settings() {
  const { t } = useTranslation('dhcp')
  return (
    <Panel title={t('settings.title')}>
      <SettingsForm singleton={dhcpSettings} text="dhcp:settings" fields={fields} />
    </Panel>
  )
}
