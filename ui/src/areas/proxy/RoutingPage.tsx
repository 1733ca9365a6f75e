import './texts'
import { IconPencil, IconTrash } from '@tabler/icons-react'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useLocation, useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { routingRules } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { RoutingRule } from '../../api/types'
import { askToRemove } from '../../kit/change/remove'
import type { Fields } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { RowMenu } from '../../kit/list/RowMenu'
import { RowSwitch } from '../../kit/list/RowSwitch'
import SortableTable from '../../kit/list/SortableTable'
import { useMove } from '../../kit/list/useMove'
import { Page } from '../../kit/page/Page'
import { paths } from '../../paths'
import { useLive } from './health'
import { BackendCell, Mark, Prefix } from './marks'
import classes from './Proxy.module.css'
import { shadowed } from './shadow'
import { useBackends, useDomains } from './useSites'

export default function RoutingPage() {
  const { t } = useTranslation('proxy')
  const canEdit = useCanEdit()
  const domains = useDomains()
  const { byId, serversOf } = useBackends()
  const live = useLive()
  const move = useMove(routingRules)
  const { data = [] } = useQuery({ queryKey: [routingRules.kind], queryFn: routingRules.list })
  const hidden = useMemo(() => shadowed(data), [data])
  const domainName = (id: string) => domains.byId.get(id)?.name ?? id
  const columns: Column<RoutingRule>[] = [
    {
      key: 'active',
      header: t('on'),
      width: '42px',
      cell: (row) => <RowSwitch resource={routingRules} row={row} field="active" name={row.path_prefix} harmless />,
    },
    {
      key: 'prefix',
      header: t('routing.path_prefix.label'),
      width: 'minmax(0, 1.6fr)',
      main: true,
      cell: (row) => <Prefix rule={row} by={hidden.get(row.id)} />,
    },
    {
      key: 'backend',
      header: t('routing.backend_id.label'),
      width: 'minmax(0, 1.2fr)',
      cell: (row) => {
        const backend = byId.get(row.backend_id)
        const health = backend ? live.healthOf(backend, serversOf(backend.id)) : 'unknown'
        return <BackendCell id={row.backend_id} name={backend?.name} health={health} />
      },
    },
    {
      key: 'strip',
      header: t('routing.does'),
      cell: (row) => (row.strip_prefix ? <Mark>{t('routing.strips')}</Mark> : <span className="soft">–</span>),
    },
    ...(canEdit
      ? [{ key: 'menu', header: '', width: '26px', cell: (row: RoutingRule) => <RuleMenu row={row} /> }]
      : []),
  ]
  return (
    <Page title={t('routing.title')} lead={t('routing.lead')}>
      <ResourceList
        resource={routingRules}
        text="proxy:routing"
        columns={columns}
        filters={[
          {
            key: 'domain',
            label: t('routing.domain_id.label'),
            options: domains.all.map(({ id, name }) => ({ value: id, label: name })),
            of: (row) => row.domain_id,
            many: true,
          },
        ]}
        searchText={(row) =>
          [row.path_prefix, domainName(row.domain_id), byId.get(row.backend_id)?.name, row.id].join(' ')
        }
        rowLink={(row) => paths.routingRule(row.id)}
        createLink={paths.routingRuleNew}
        order={{ move, name: (row) => row.path_prefix, Table: SortableTable }}
        group={{
          of: (row) => row.domain_id,
          name: domainName,
          title: (id) => {
            const otherwise = byId.get(domains.byId.get(id)?.backend_id ?? '')
            return (
              <span className={classes.group}>
                <Link to={paths.domain(id)} className="mono">
                  {domainName(id)}
                </Link>
                {otherwise && <span className="soft">{t('routing.otherwise', { name: otherwise.name })}</span>}
              </span>
            )
          },
        }}
      />
      <Outlet />
    </Page>
  )
}

function RuleMenu({ row }: { row: RoutingRule }) {
  const { t } = useTranslation('proxy')
  const navigate = useNavigate()
  const queries = useQueryClient()
  return (
    <RowMenu
      name={row.path_prefix}
      items={() => [
        {
          label: t('menu.edit'),
          icon: IconPencil,
          act: () => void navigate({ to: paths.routingRule(row.id), search: true } as never),
        },
        {
          label: t('menu.delete'),
          icon: IconTrash,
          danger: true,
          act: () =>
            void askToRemove({
              resource: routingRules,
              id: row.id,
              name: row.path_prefix,
              text: t('routing.deleteText'),
              queries,
            }),
        },
      ]}
    />
  )
}

function useForm() {
  const domains = useDomains()
  const { all } = useBackends()
  const choices = (rows: readonly { id: string; name: string }[]) =>
    rows.map(({ id, name }) => ({ value: id, label: name }))
  const fields: Fields<'proxy.routing-rule'> = [
    { name: 'domain_id', type: 'select', choices: choices(domains.all) },
    { name: 'path_prefix', type: 'mono' },
    { name: 'backend_id', type: 'select', choices: choices(all) },
    { name: 'strip_prefix', type: 'switch' },
    { name: 'active', type: 'switch' },
  ]
  return { resource: routingRules, text: 'proxy:routing', list: paths.routing, fields }
}

const blank = { path_prefix: '/' }

/** The form for a new rule. A domain can fill it in. */
export function Create() {
  const draft = (useLocation().state as { draft?: object }).draft
  return <CreateDrawer {...useForm()} defaults={{ ...blank, ...draft }} />
}

export function Edit() {
  return <EditDrawer {...useForm()} name={(row) => row.path_prefix} />
}
