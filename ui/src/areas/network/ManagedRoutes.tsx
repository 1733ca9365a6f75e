import { useQuery } from '@tanstack/react-query'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { routes } from '../../api/resources'
import { ownConnection } from '../../kit/change/own-connection'
import type { Fields, Values } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import { ResourceList } from '../../kit/list/ResourceList'
import { RowSwitch } from '../../kit/list/RowSwitch'
import { paths } from '../../paths'
import { linkNames } from './links'
import { liveRoutes, tableOf } from './live-routes'
import { useLinks } from './useLinks'

export default function ManagedRoutes() {
  const { t } = useTranslation('network')
  return (
    <>
      <ResourceList
        resource={routes}
        text="network:route"
        columns={[
          {
            key: 'active',
            header: t('route.on'),
            width: '42px',
            cell: (row) => <RowSwitch resource={routes} row={row} field="active" name={row.destination} />,
            sortBy: (row) => row.active,
          },
          {
            key: 'destination',
            header: t('route.destination.label'),
            width: 'minmax(0, 1.4fr)',
            main: true,
            cell: (row) => <span className="mono">{row.destination}</span>,
            sortBy: (row) => row.destination,
          },
          {
            key: 'gateway',
            header: t('route.gateway.label'),
            width: 'minmax(0, 1.2fr)',
            cell: (row) => (row.gateway ? <span className="mono">{row.gateway}</span> : t('route.onLink')),
            sortBy: (row) => row.gateway,
          },
          {
            key: 'dev',
            header: t('route.dev.label'),
            cell: (row) => (row.dev ? <span className="mono">{row.dev}</span> : '–'),
            sortBy: (row) => row.dev,
          },
          {
            key: 'metric',
            header: t('route.metric.label'),
            width: '70px',
            align: 'right',
            cell: (row) => row.metric,
            sortBy: (row) => row.metric,
          },
          {
            key: 'table',
            header: t('route.table_name.label'),
            width: '90px',
            cell: (row) => row.table_name,
            sortBy: (row) => row.table_name,
          },
          {
            key: 'comment',
            header: t('route.comment.label'),
            width: 'minmax(0, 1.4fr)',
            cell: (row) => row.comment || '–',
          },
        ]}
        searchText={(row) => [row.destination, row.gateway, row.dev, row.table_name, row.comment, row.id].join(' ')}
        rowLink={(row) => paths.route(row.id)}
        createLink={paths.routeNew}
      />
      <Outlet />
    </>
  )
}

const shape = {
  read: (row: Values): Values => ({ ...row, dev: row.dev || null }),
  write: (values: Values): Values => ({ ...values, dev: values.dev ?? '', metric: values.metric ?? 0 }),
}

function useForm() {
  const { links } = useLinks()
  const { data = [] } = useQuery({ queryKey: [liveRoutes.kind], queryFn: liveRoutes.list })
  const tables = [...new Set(['main', ...data.map(tableOf)])].filter((table) => table !== 'local')
  const fields: Fields<'network.route'> = [
    { name: 'destination', type: 'mono' },
    { name: 'gateway', type: 'mono' },
    { name: 'dev', type: 'select', choices: linkNames(links) },
    { name: 'metric', type: 'number' },
    { name: 'table_name', type: 'suggest', choices: tables },
    { name: 'active', type: 'switch' },
    { name: 'comment', type: 'text' },
  ]
  return { resource: routes, text: 'network:route', list: paths.routes, fields, shape, guard: ownConnection }
}

export function Create() {
  return <CreateDrawer {...useForm()} />
}

export function Edit() {
  return <EditDrawer {...useForm()} name={(row) => row.destination} />
}
