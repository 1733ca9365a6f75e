import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { certificates, dnsProviders } from '../../api/resources'
import type { Fields, Values } from '../../kit/form/fields'
import { CreateDrawer } from '../../kit/form/ResourceDrawers'
import { paths } from '../../paths'
import { AcmeOff } from './AcmeOff'
import { Preflight } from './Preflight'
import { needsDns } from './words'

export function useOrderFields(): Fields<'certificate.certificate'> {
  const { data: providers = [] } = useQuery({ queryKey: [dnsProviders.kind], queryFn: dnsProviders.list })
  return [
    { name: 'names', type: 'list', required: true },
    {
      name: 'challenge',
      type: 'choice',
      when: (values) => !needsDns(values.names),
    },
    {
      name: 'dns_provider_id',
      type: 'select',
      choices: providers.map(({ id, name }) => ({ value: id, label: name })),
      when: byDns,
    },
    { name: 'key_type', type: 'choice' },
  ]
}

const byDns = (values: Values) => values.challenge === 'dns-01' || needsDns(values.names)

/** Fills in what the form does not ask: a wildcard needs DNS, and null is the first matching provider. */
export const orderShape = {
  read: (row: Values): Values => row,
  write: (values: Values): Values => ({
    ...values,
    challenge: byDns(values) ? 'dns-01' : values.challenge,
    dns_provider_id: byDns(values) ? (values.dns_provider_id ?? null) : null,
  }),
}

/** The form to order a certificate. */
export function Create() {
  const { t } = useTranslation('certificates')
  const write = (values: Values) => ({ ...orderShape.write(values), source: 'acme' })
  return (
    <CreateDrawer
      resource={certificates}
      text="certificates:certificate"
      list={paths.certificates}
      fields={useOrderFields()}
      shape={{ ...orderShape, write }}
      preview={false}
      verb={t('certificate.order')}
      below={(values) => (
        <>
          <Preflight values={values} />
          <AcmeOff />
          <p className="soft">{t('certificate.then')}</p>
        </>
      )}
    />
  )
}
