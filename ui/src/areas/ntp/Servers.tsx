import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { ntpPools } from '../../api/resources'
import type { NtpPool } from '../../api/types'
import type { Fields } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { OnOff } from '../../kit/state/StateBadge'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'

const kinds = ['pool', 'server'] as const

const fields: Fields<'ntp.pool'> = [
  { name: 'kind', type: 'choice', options: kinds },
  { name: 'address', type: 'mono' },
  { name: 'iburst', type: 'switch' },
  { name: 'prefer', type: 'switch' },
  { name: 'minpoll', type: 'number' },
  { name: 'maxpoll', type: 'number' },
]

export default function Servers() {
  const { t } = useTranslation('ntp')
  const kindText = (kind: string) => t(`pool.kinds.${kind}`)
  const columns: Column<NtpPool>[] = [
    {
      key: 'address',
      header: t('pool.address.label'),
      width: 'minmax(0, 2fr)',
      cell: (row) => <span className="mono">{row.address}</span>,
      sortBy: (row) => row.address,
    },
    { key: 'kind', header: t('pool.kind.label'), cell: (row) => kindText(row.kind), sortBy: (row) => row.kind },
    {
      key: 'iburst',
      header: t('pool.iburst.label'),
      cell: (row) => <OnOff on={row.iburst} />,
      sortBy: (row) => row.iburst,
    },
    {
      key: 'prefer',
      header: t('pool.prefer.label'),
      cell: (row) => <OnOff on={row.prefer} />,
      sortBy: (row) => row.prefer,
    },
    {
      key: 'updated',
      header: t('pool.updated'),
      cell: (row) => <Time at={row.updated_at} />,
      sortBy: (row) => row.updated_at,
    },
  ]
  return (
    <>
      <ResourceList
        resource={ntpPools}
        text="ntp:pool"
        columns={columns}
        filters={[
          {
            key: 'kind',
            label: t('pool.kind.label'),
            options: kinds.map((value) => ({ value, label: kindText(value) })),
            of: (row) => row.kind,
          },
        ]}
        searchText={(row) => `${row.address} ${row.kind} ${row.id}`}
        rowLink={(row) => paths.ntpServer(row.id)}
        createLink={paths.ntpServerNew}
      />
      <Outlet />
    </>
  )
}

export function Create() {
  return <CreateDrawer resource={ntpPools} text="ntp:pool" list={paths.ntpServers} fields={fields} />
}

export function Edit() {
  return (
    <EditDrawer
      resource={ntpPools}
      text="ntp:pool"
      list={paths.ntpServers}
      fields={fields}
      name={(row) => row.address}
    />
  )
}
