import type { ComboboxData } from '@mantine/core'
import { useTranslation } from 'react-i18next'
import { forwardProxySettings } from '../../api/resources'
import type { FieldSpec } from '../../kit/form/fields'
import { SettingsForm } from '../../kit/form/ResourceForm'
import { Panel } from '../../kit/page/Page'
import { useOwnAddresses } from '../network/useLinks'

const fields = (own: ComboboxData): FieldSpec[] => [
  { name: 'enabled', type: 'switch' },
  { name: 'allowed_networks', type: 'list' },
  { name: 'listen_addresses', type: 'list', choices: own },
  { name: 'port', type: 'number', required: true, min: 1, max: 65_535 },
  { name: 'cache_mb', type: 'number', required: true, min: 0, max: 65_536 },
]

export default function Settings() {
  const { t } = useTranslation('forward-proxy')
  return (
    <Panel title={t('settings.title')}>
      <SettingsForm singleton={forwardProxySettings} text="forward-proxy:settings" fields={fields(useOwnAddresses())} />
    </Panel>
  )
}
