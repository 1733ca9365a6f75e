import type { ComboboxData } from '@mantine/core'
import { useTranslation } from 'react-i18next'
import { dnsSettings } from '../../api/resources'
import type { Fields } from '../../kit/form/fields'
import { SettingsForm } from '../../kit/form/ResourceForm'
import { Panel } from '../../kit/page/Page'
import { useOwnAddresses } from '../network/useLinks'

const fields = (own: ComboboxData): Fields<'dns.settings'> => [
  { name: 'listen_addresses', type: 'list', choices: own, section: 'clients' },
  { name: 'access_acl', type: 'list' },
  { name: 'upstream_forwards', type: 'list', section: 'upstream' },
  { name: 'dnssec_validation', type: 'switch' },
  { name: 'qname_minimisation', type: 'switch' },
  { name: 'cache_min_ttl', type: 'span', section: 'cache' },
  { name: 'cache_max_ttl', type: 'span' },
]

export default function Settings() {
  const { t } = useTranslation('dns')
  return (
    <Panel title={t('settings.title')}>
      <SettingsForm singleton={dnsSettings} text="dns:settings" fields={fields(useOwnAddresses())} />
    </Panel>
  )
}
