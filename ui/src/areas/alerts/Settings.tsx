import { useTranslation } from 'react-i18next'
import { alertSettings } from '../../api/resources'
import type { FieldSpec } from '../../kit/form/fields'
import { SettingsForm } from '../../kit/form/ResourceForm'
import { Panel } from '../../kit/page/Page'

const number = (name: string, min: number, max: number, section?: string): FieldSpec => ({
  name,
  type: 'number',
  required: true,
  min,
  max,
  section,
})

const fields: FieldSpec[] = [
  number('cert_warning_days', 1, 365, 'certificates'),
  number('cert_error_days', 0, 365),
  number('memory_warning_percent', 1, 100, 'machine'),
  number('memory_error_percent', 1, 100),
  number('disk_warning_percent', 1, 100),
  number('disk_error_percent', 1, 100),
  number('conntrack_warning_percent', 1, 100),
  number('conntrack_error_percent', 1, 100),
  number('tunnel_down_minutes', 3, 1440, 'other'),
  number('degraded_seconds', 10, 86_400),
  number('failed_logins', 1, 10_000),
  number('failed_logins_minutes', 1, 1440),
  number('replication_lag_seconds', 1, 86_400),
  number('digest_over', 1, 1000, 'delivery'),
  number('history_days', 1, 3650),
]

export default function Settings() {
  const { t } = useTranslation('alerts')
  return (
    <Panel title={t('settings.title')}>
      <SettingsForm singleton={alertSettings} text="alerts:settings" fields={fields} preview={false} />
    </Panel>
  )
}
