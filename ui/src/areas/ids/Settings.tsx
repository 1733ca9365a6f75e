import { useTranslation } from 'react-i18next'
import { Panel } from '../../kit/Page'
import { SettingsForm } from '../../kit/ResourceForm'
import { idsSettings } from './resources'
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
