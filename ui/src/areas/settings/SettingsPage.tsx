import { useTranslation } from 'react-i18next'
import { singleton } from '../../api/resource'
import { maintenance } from '../../app/state'
import { addTexts } from '../../i18n/i18n'
import { Flag } from '../../kit/Flag'
import type { FieldSpec } from '../../kit/fields'
import { Page, Panel } from '../../kit/Page'
import { SettingsForm } from '../../kit/ResourceForm'
import '../proxy/texts'
import { useMaintenance } from '../proxy/Maintenance'
import en from './en.json'
import classes from './Settings.module.css'

addTexts('settings', en)

const ipv6 = singleton('system.ipv6', '/system/ipv6', 'post')
const retention = singleton('system.retention', '/system/retention', 'put')
const retentionFields: FieldSpec[] = [{ name: 'audit_days', type: 'number', min: 0, max: 3650 }]

export default function SettingsPage() {
  const { t } = useTranslation('settings')
  const { ask } = useMaintenance()
  return (
    <Page title={t('title')} lead={t('lead')}>
      <Panel title={t('general')}>
        <div className={classes.flags}>
          <Flag text="settings:ipv6" flag={ipv6} />
          <Flag text="settings:maintenance" flag={maintenance} ask={ask} />
        </div>
      </Panel>
      <Panel title={t('retention.title')}>
        <SettingsForm singleton={retention} text="settings:retention" fields={retentionFields} preview={false} />
      </Panel>
    </Page>
  )
}
