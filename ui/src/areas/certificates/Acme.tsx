import './texts'
import { useTranslation } from 'react-i18next'
import type { FieldSpec } from '../../kit/fields'
import { Panel } from '../../kit/Page'
import { SettingsForm } from '../../kit/ResourceForm'
import { acme } from './resources'

const fields: FieldSpec[] = [
  { name: 'enabled', type: 'switch' },
  { name: 'email', type: 'email' },
  { name: 'directory_url', type: 'mono' },
]

export default function Acme() {
  const { t } = useTranslation('certificates')
  return (
    <Panel title={t('acme.title')}>
      <SettingsForm singleton={acme} text="certificates:acme" fields={fields} preview={false} />
    </Panel>
  )
}
