import { useTranslation } from 'react-i18next'
import { idsSettings } from '../../api/resources'
import { SettingsForm } from '../../kit/form/ResourceForm'
import { Panel } from '../../kit/page/Page'
import { Status } from './Status'
import { settingsFields, settingsShape } from './settings-form'

export default function Settings() {
  const { t } = useTranslation('ids')
  return (
    <>
      <Status />
      <Panel title={t('settings.title')}>
        <SettingsForm singleton={idsSettings} text="ids:settings" fields={settingsFields} shape={settingsShape} />
      </Panel>
    </>
  )
}
