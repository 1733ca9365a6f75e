import './texts'
import { useTranslation } from 'react-i18next'
import type { Data } from '../../api/resource'
import { acme } from '../../api/resources'
import type { FieldSpec } from '../../kit/form/fields'
import { SettingsForm } from '../../kit/form/ResourceForm'
import { Panel } from '../../kit/page/Page'

const fields: FieldSpec<keyof Data<'/certificates/acme'>>[] = [
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
