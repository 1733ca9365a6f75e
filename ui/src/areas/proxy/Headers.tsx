import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { headersOf } from '../../api/resources'
import type { Fields, Values } from '../../kit/form/fields'
import { SubList } from '../../kit/list/SubList'
import { Loaded } from '../../kit/state/Loaded'

/** Common response headers. */
const usual = [
  'Content-Security-Policy',
  'Cross-Origin-Opener-Policy',
  'Permissions-Policy',
  'Referrer-Policy',
  'Server',
  'X-Content-Type-Options',
  'X-Frame-Options',
  'X-Powered-By',
]

const fields: Fields<'proxy.header'> = [
  { name: 'operation', type: 'segments' },
  { name: 'name', type: 'suggest', choices: usual },
  { name: 'value', type: 'mono', required: true, when: (values) => values.operation !== 'remove' },
]

export function Headers({ domain }: { domain: string }) {
  const { t } = useTranslation('proxy')
  const headers = useMemo(() => headersOf(domain), [domain])
  const query = useQuery({ queryKey: [headers.kind, 'of', domain], queryFn: headers.list })
  const write = (values: Values) => ({
    ...values,
    domain_id: domain,
    value: values.operation === 'remove' ? '' : values.value,
  })
  return (
    <Loaded query={query} height={80}>
      {(rows) => (
        <SubList
          resource={headers}
          rows={rows}
          text="proxy:header"
          columns={[
            {
              key: 'operation',
              header: t('header.operation.label'),
              width: '80px',
              cell: (row) => t(`header.operation.options.${row.operation}`),
            },
            {
              key: 'name',
              header: t('header.name.label'),
              main: true,
              cell: (row) => <span className="mono">{row.name}</span>,
            },
            {
              key: 'value',
              header: t('header.value.label'),
              width: 'minmax(0, 1.6fr)',
              cell: (row) => (row.value ? <span className="mono">{row.value}</span> : '–'),
            },
          ]}
          fields={fields}
          shape={{ read: (row) => row, write }}
          name={(row) => row.name}
        />
      )}
    </Loaded>
  )
}
