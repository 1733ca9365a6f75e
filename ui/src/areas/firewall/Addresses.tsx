import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { addresses } from '../../api/resources'
import type { Address } from '../../api/types'
import type { Fields } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import { ResourceList } from '../../kit/list/ResourceList'
import { paths } from '../../paths'
import { useUsage } from './book'
import classes from './Firewall.module.css'
import { UsedBy } from './marks'

const kinds = ['host', 'network', 'range', 'fqdn'] as const
const fields: Fields<'firewall.address-object'> = [
  { name: 'name', type: 'text' },
  { name: 'kind', type: 'segments', options: kinds },
  { name: 'value', type: 'mono' },
  { name: 'description', type: 'text' },
]
const form = { resource: addresses, text: 'firewall:address', list: paths.addresses, fields }

export default function Addresses() {
  const { t } = useTranslation('firewall')
  const usage = useUsage()
  return (
    <>
      <ResourceList
        resource={addresses}
        text="firewall:address"
        columns={[
          {
            key: 'name',
            header: t('address.name.label'),
            cell: (row) => row.name,
            sortBy: (row) => row.name,
          },
          {
            key: 'kind',
            header: t('address.kind.label'),
            width: '100px',
            cell: (row) => <span className={classes.tag}>{t(`address.kind.options.${row.kind}`)}</span>,
            sortBy: (row) => row.kind,
          },
          {
            key: 'value',
            header: t('address.value.label'),
            width: 'minmax(0, 1.4fr)',
            cell: (row) => <Value row={row} />,
            sortBy: (row) => row.value,
          },
          { key: 'description', header: t('address.description.label'), cell: (row) => row.description || '–' },
          {
            key: 'used',
            header: t('usedBy'),
            width: '70px',
            align: 'right',
            cell: (row) => <UsedBy users={usage.get(row.id)} name={row.name} />,
            sortBy: (row) => usage.get(row.id)?.length ?? 0,
          },
        ]}
        filters={[
          {
            key: 'kind',
            label: t('address.kind.label'),
            options: kinds.map((value) => ({ value, label: t(`address.kind.options.${value}`) })),
            of: (row) => row.kind,
          },
        ]}
        searchText={(row) => [row.name, row.value, ...row.resolved, row.description, row.kind, row.id].join(' ')}
        rowLink={(row) => paths.address(row.id)}
        createLink={paths.addressNew}
      />
      <Outlet />
    </>
  )
}

/** For a host name, also what it last resolved to. */
function Value({ row }: { row: Address }) {
  const { t } = useTranslation('firewall')
  return (
    <span className={classes.stack}>
      <span className="mono">{row.value}</span>
      {row.kind === 'fqdn' && (
        <small className={row.resolved.length > 0 ? 'mono soft' : 'soft'}>
          {row.resolved.join(', ') || t('address.unresolved')}
        </small>
      )}
    </span>
  )
}

export function Create() {
  return <CreateDrawer {...form} defaults={{ kind: 'host' }} />
}

export function Edit() {
  return <EditDrawer {...form} name={(row) => row.name} />
}
