import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { Data } from '../../api/resource'
import { ipv6, retention } from '../../api/resources'
import i18n, { addTexts } from '../../i18n/i18n'
import { confirm } from '../../kit/change/confirm'
import { isOverIPv6 } from '../../kit/change/own-connection'
import { Flag } from '../../kit/form/Flag'
import type { FieldSpec } from '../../kit/form/fields'
import { SettingsForm } from '../../kit/form/ResourceForm'
import { Facts, Page, Panel } from '../../kit/page/Page'
import '../proxy/texts'
import { maintenance } from '../../api/resources'
import { useMaintenance } from '../proxy/Maintenance'
import en from './en.json'
import classes from './Settings.module.css'

addTexts('settings', en)

const retentionFields: FieldSpec<keyof Data<'/system/retention'>>[] = [
  { name: 'audit_days', type: 'number', min: 0, max: 3650 },
  { name: 'history_days', type: 'number', min: 1, max: 3650 },
  { name: 'history_sets', type: 'number', min: 100, max: 1_000_000 },
]

/** Asks before turning off IPv6 over an IPv6 connection, which could not confirm that change. */
const agreedToIPv6 = async (enabled: boolean) =>
  enabled ||
  !(await isOverIPv6()) ||
  confirm({
    title: i18n.t('settings:ipv6.off.title'),
    text: i18n.t('settings:ipv6.off.text'),
    verb: i18n.t('settings:ipv6.off.verb'),
    danger: true,
  })

export default function SettingsPage() {
  const { t } = useTranslation('settings')
  const { ask } = useMaintenance()
  const { data: status } = useQuery({ queryKey: ['setup'], queryFn: () => unwrap(http.GET('/setup/status')) })
  return (
    <Page title={t('title')} lead={t('lead')}>
      <Panel title={t('general')}>
        <Facts
          facts={[
            [
              t('hostname'),
              <span key="name" className="mono">
                {status?.fqdn ?? '–'}
              </span>,
            ],
          ]}
        />
        <div className={classes.flags}>
          <Flag text="settings:ipv6" flag={ipv6} agreed={agreedToIPv6} />
          <Flag text="settings:maintenance" flag={maintenance} ask={ask} />
        </div>
      </Panel>
      <Panel title={t('retention.title')}>
        <SettingsForm singleton={retention} text="settings:retention" fields={retentionFields} preview={false} />
      </Panel>
    </Page>
  )
}
