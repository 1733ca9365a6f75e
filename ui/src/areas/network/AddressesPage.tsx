import './texts'
import { useQuery } from '@tanstack/react-query'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { ipAddresses } from '../../api/resources'
import { ownConnection } from '../../kit/change/own-connection'
import type { Fields } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import { ResourceList } from '../../kit/list/ResourceList'
import { Page } from '../../kit/page/Page'
import { Badge } from '../../kit/state/StateBadge'
import { paths } from '../../paths'
import { vipStatusQuery } from '../cluster/resources'
import { addressDefaults, addressFields } from './address-form'
import { addressRows } from './address-rows'
import { useLinks } from './useLinks'

const kinds = ['managed', 'vip', 'manual'] as const

export default function AddressesPage() {
  const { t } = useTranslation('network')
  const { links, queries } = useLinks()
  const vip = useQuery(vipStatusQuery)
  const known = queries.live.data !== undefined
  return (
    <Page title={t('address.title')} lead={t('address.lead')}>
      <ResourceList
        resource={ipAddresses}
        join={() => addressRows(links, vip.data)}
        text="network:address"
        columns={[
          {
            key: 'address',
            header: t('address.address.label'),
            width: 'minmax(0, 1.6fr)',
            cell: (row) => <span className="mono">{row.text}</span>,
            sortBy: (row) => row.text,
          },
          {
            key: 'interface',
            header: t('address.interface_id.label'),
            cell: (row) => <span className="mono">{row.link}</span>,
            sortBy: (row) => row.link,
          },
          {
            key: 'kind',
            header: t('address.kind'),
            cell: (row) =>
              row.kind === 'manual' ? (
                <Badge tone="off">{t('address.kinds.manual')}</Badge>
              ) : (
                t(`address.kinds.${row.kind}`)
              ),
            sortBy: (row) => row.kind,
          },
          {
            key: 'state',
            header: t('address.state'),
            cell: (row) => (known ? <Badge tone={row.tone}>{t(`address.${row.state}`)}</Badge> : '–'),
            sortBy: (row) => row.bound,
          },
          {
            key: 'description',
            header: t('address.description.label'),
            width: 'minmax(0, 1.4fr)',
            cell: (row) => row.stored?.description || '–',
          },
        ]}
        filters={[
          {
            key: 'kind',
            label: t('address.kind'),
            options: kinds.map((value) => ({ value, label: t(`address.kinds.${value}`) })),
            of: (row) => row.kind,
          },
          {
            key: 'interface',
            label: t('address.interface_id.label'),
            options: links.map(({ name }) => ({ value: name, label: name })),
            of: (row) => row.link,
            many: true,
          },
        ]}
        searchText={(row) => [row.text, row.link, row.kind, row.stored?.description, row.id].join(' ')}
        rowLink={(row) => row.stored && paths.ipAddress(row.stored.id)}
        createLink={paths.ipAddressNew}
      />
      <Outlet />
    </Page>
  )
}

function useForm() {
  const { queries } = useLinks()
  const declared = queries.declared.data ?? []
  const fields: Fields<'network.ip-address'> = [
    {
      name: 'interface_id',
      type: 'select',
      required: true,
      choices: declared.map(({ id, name, role }) => ({ value: id, label: `${name} (${role})` })),
    },
    ...addressFields,
  ]
  return { resource: ipAddresses, text: 'network:address', list: paths.ipAddresses, fields, guard: ownConnection }
}

export function Create() {
  return <CreateDrawer {...useForm()} defaults={addressDefaults} />
}

export function Edit() {
  return <EditDrawer {...useForm()} name={(row) => `${row.address}/${row.prefix}`} />
}
