import './texts'
import { useTranslation } from 'react-i18next'
import type { FieldSpec } from '../../kit/form/fields'
import { CreateDrawer } from '../../kit/form/ResourceDrawers'
import { paths } from '../../paths'
import { licenseKey } from './resources'

const fields: FieldSpec<'key'>[] = [{ name: 'key', type: 'pem', required: true }]

/** The form to install a license, pasted or from a file. */
export default function Install() {
  const { t } = useTranslation('license')
  return (
    <CreateDrawer
      resource={licenseKey}
      text="license:install"
      list={paths.license}
      fields={fields}
      verb={t('install.verb')}
      preview={false}
    />
  )
}
