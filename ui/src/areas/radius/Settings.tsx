import type { ComboboxData } from '@mantine/core'
import { useTranslation } from 'react-i18next'
import { radiusSettings } from '../../api/resources'
import type { Fields } from '../../kit/form/fields'
import { SettingsForm } from '../../kit/form/ResourceForm'
import { Panel } from '../../kit/page/Page'
import { useOwnAddresses } from '../network/useLinks'

const fields = (own: ComboboxData): Fields<'radius.settings'> => [
  { name: 'enabled', type: 'switch' },
  { name: 'listen_addresses', type: 'list', choices: own },
  { name: 'auth_port', type: 'number', required: true },
  { name: 'acct_port', type: 'number', required: true },
]

export default function Settings() {
  const { t } = useTranslation('radius')
  return (
    <Panel title={t('settings.title')}>
      <SettingsForm singleton={radiusSettings} text="radius:settings" fields={fields(useOwnAddresses())} />
    </Panel>
  )
}
