import { useTranslation } from 'react-i18next'
import type { FieldOf } from '../../api/resource'
import { alertSettings } from '../../api/resources'
import type { Fields } from '../../kit/form/fields'
import { SettingsForm } from '../../kit/form/ResourceForm'
import { Panel } from '../../kit/page/Page'

const number = (name: FieldOf<'alert.settings'>, section?: string) =>
  ({ name, type: 'number', required: true, section }) as const

const fields: Fields<'alert.settings'> = [
  number('cert_warning_days', 'certificates'),
  number('cert_error_days'),
  number('memory_warning_percent', 'machine'),
  number('memory_error_percent'),
  number('disk_warning_percent'),
  number('disk_error_percent'),
  number('conntrack_warning_percent'),
  number('conntrack_error_percent'),
  number('tunnel_down_minutes', 'other'),
  number('degraded_seconds'),
  number('failed_logins'),
  number('failed_logins_minutes'),
  number('replication_lag_seconds'),
  number('digest_over', 'delivery'),
  number('history_days'),
]

export default function Settings() {
  const { t } = useTranslation('alerts')
  return (
    <Panel title={t('settings.title')}>
      <SettingsForm singleton={alertSettings} text="alerts:settings" fields={fields} preview={false} />
    </Panel>
  )
}
