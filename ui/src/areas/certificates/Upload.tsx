import { certificates } from '../../api/resources'
import type { Fields } from '../../kit/form/fields'
import { CreateDrawer } from '../../kit/form/ResourceDrawers'
import { paths } from '../../paths'

export const pemFields: Fields<'certificate.certificate'> = [
  { name: 'certificate_pem', type: 'pem', required: true, covers: ['names', 'source'] },
  { name: 'private_key_pem', type: 'pem-key' },
]

/** The form to upload a certificate. */
export function Upload() {
  return (
    <CreateDrawer
      resource={certificates}
      text="certificates:upload"
      list={paths.certificates}
      fields={pemFields.map((field) => ({ ...field, required: true }))}
      shape={{ read: (row) => row, write: (values) => ({ ...values, source: 'uploaded' }) }}
      preview={false}
    />
  )
}
