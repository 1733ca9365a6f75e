import type { ComboboxData } from '@mantine/core'
import { useTranslation } from 'react-i18next'
import { forwardProxySettings } from '../../api/resources'
import type { Fields } from '../../kit/form/fields'
import { SettingsForm } from '../../kit/form/ResourceForm'
import { Panel } from '../../kit/page/Page'
import { useOwnAddresses } from '../network/useLinks'

const fields = (own: ComboboxData): Fields<'forward-proxy.settings'> => [
  { name: 'enabled', type: 'switch' },
  { name: 'allowed_networks', type: 'list' },
  { name: 'listen_addresses', type: 'list', choices: own },
  { name: 'port', type: 'number', required: true },
  { name: 'cache_mb', type: 'number', required: true },
]

export default function Settings() {
  const { t } = useTranslation('forward-proxy')
  return (
    <Panel title={t('settings.title')}>
      <SettingsForm singleton={forwardProxySettings} text="forward-proxy:settings" fields={fields(useOwnAddresses())} />
    </Panel>
  )
}
