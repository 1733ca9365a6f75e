import type { ComboboxData } from '@mantine/core'
import { useTranslation } from 'react-i18next'
import { ntpSettings } from '../../api/resources'
import type { Fields } from '../../kit/form/fields'
import { SettingsForm } from '../../kit/form/ResourceForm'
import { Panel } from '../../kit/page/Page'
import { useOwnAddresses } from '../network/useLinks'

const fields = (own: ComboboxData): Fields<'ntp.settings'> => [
  { name: 'serve_clients', type: 'switch' },
  { name: 'listen_addresses', type: 'list', choices: own, when: (values) => values.serve_clients === true },
  { name: 'allow_acl', type: 'list', when: (values) => values.serve_clients === true },
  { name: 'makestep', type: 'mono' },
  { name: 'rtcsync', type: 'switch' },
]

export default function Settings() {
  const { t } = useTranslation('ntp')
  return (
    <Panel title={t('settings.title')}>
      <SettingsForm singleton={ntpSettings} text="ntp:settings" fields={fields(useOwnAddresses())} />
    </Panel>
  )
}
