import './texts'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { dnsProviders } from '../../api/resources'
import type { DnsProvider } from '../../api/types'
import type { Fields, Values } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import { ResourceList } from '../../kit/list/ResourceList'
import { Badge } from '../../kit/state/StateBadge'
import { paths } from '../../paths'
import { providerFields, providerKinds } from './words'

const needs = (field: string) => (values: Values) =>
  providerFields[values.kind as DnsProvider['kind']]?.includes(field) ?? false

function useForm() {
  const { t } = useTranslation('certificates')
  const fields: Fields<'certificate.dns-provider'> = [
    { name: 'name', type: 'text' },
    {
      name: 'kind',
      type: 'select',
      choices: providerKinds.map((value) => ({ value, label: t(`provider.kinds.${value}`) })),
    },
    { name: 'server', type: 'mono', required: true, when: needs('server') },
    { name: 'endpoint', type: 'mono', required: true, when: needs('endpoint') },
    { name: 'username', type: 'mono', when: needs('username') },
    {
      name: 'algorithm',
      type: 'segments',
      when: needs('algorithm'),
    },
    { name: 'secret', type: 'password', configured: 'secret_configured' },
    { name: 'zones', type: 'list' },
  ]
  // Clear fields that only other kinds need.
  const write = (values: Values): Values => ({
    ...values,
    ...Object.fromEntries(
      ['server', 'endpoint', 'username'].filter((field) => !needs(field)(values)).map((field) => [field, '']),
    ),
  })
  return {
    resource: dnsProviders,
    text: 'certificates:provider',
    list: paths.dnsProviders,
    fields,
    shape: { read: (row: Values) => row, write },
    preview: false,
  }
}

export default function Providers() {
  const { t } = useTranslation('certificates')
  return (
    <>
      <ResourceList
        resource={dnsProviders}
        text="certificates:provider"
        columns={[
          { key: 'name', header: t('provider.name.label'), cell: (row) => row.name, sortBy: (row) => row.name },
          {
            key: 'kind',
            header: t('provider.kind.label'),
            cell: (row) => t(`provider.kinds.${row.kind}`),
            sortBy: (row) => row.kind,
          },
          {
            key: 'zones',
            header: t('provider.zones.label'),
            width: 'minmax(0, 1.4fr)',
            cell: (row) =>
              row.zones.length > 0 ? (
                <span className="mono">{row.zones.join(', ')}</span>
              ) : (
                <span className="soft">{t('provider.allZones')}</span>
              ),
          },
          {
            key: 'secret',
            header: t('provider.secret.label'),
            width: '150px',
            cell: (row) => (
              <Badge tone={row.secret_configured ? 'live' : 'warn'}>
                {t(row.secret_configured ? 'provider.configured' : 'provider.missing')}
              </Badge>
            ),
            sortBy: (row) => row.secret_configured,
          },
        ]}
        searchText={(row) => [row.name, row.kind, row.server, row.endpoint, ...row.zones, row.id].join(' ')}
        rowLink={(row) => paths.dnsProvider(row.id)}
        createLink={paths.dnsProviderNew}
      />
      <Outlet />
    </>
  )
}

const defaults = { kind: 'rfc2136' }

export function Create() {
  return <CreateDrawer {...useForm()} defaults={defaults} />
}

export function Edit() {
  return <EditDrawer {...useForm()} name={(row) => row.name} />
}
