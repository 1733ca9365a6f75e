import { IconBan, IconCheck } from '@tabler/icons-react'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { forwardProxyAcls } from '../../api/resources'
import type { ForwardProxyAcl } from '../../api/types'
import type { Fields } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { RowSwitch } from '../../kit/list/RowSwitch'
import SortableTable from '../../kit/list/SortableTable'
import { useMove } from '../../kit/list/useMove'
import { Badge } from '../../kit/state/StateBadge'
import { paths } from '../../paths'
import { aclActions, aclTypes } from './acl'
import classes from './ForwardProxy.module.css'

export default function AccessList() {
  const { t } = useTranslation('forward-proxy')
  const move = useMove(forwardProxyAcls)
  const columns: Column<ForwardProxyAcl>[] = [
    {
      key: 'active',
      header: t('acl.on'),
      width: '42px',
      cell: (row) => <RowSwitch resource={forwardProxyAcls} row={row} field="active" name={row.name} harmless />,
    },
    {
      key: 'name',
      header: t('acl.name.label'),
      width: 'minmax(0, 1.2fr)',
      main: true,
      cell: (row) => <span className={row.active ? undefined : 'soft'}>{row.name}</span>,
      sortBy: (row) => row.name,
    },
    {
      key: 'type',
      header: t('acl.type.label'),
      cell: (row) => t(`acl.types.${row.type}`),
      sortBy: (row) => row.type,
    },
    {
      key: 'value',
      header: t('acl.value.label'),
      width: 'minmax(0, 1.8fr)',
      cell: (row) => (
        <span className={`mono ${classes.value}`} title={row.value}>
          {row.value}
        </span>
      ),
      sortBy: (row) => row.value,
    },
    {
      key: 'action',
      header: t('acl.action.short'),
      width: '90px',
      cell: (row) => <ActionBadge action={row.action} />,
      sortBy: (row) => row.action,
    },
  ]
  return (
    <>
      <ResourceList
        resource={forwardProxyAcls}
        text="forward-proxy:acl"
        columns={columns}
        filters={[
          {
            key: 'action',
            label: t('acl.action.short'),
            options: aclActions.map((value) => ({ value, label: t(`acl.actions.${value}`) })),
            of: (row) => row.action,
          },
        ]}
        searchText={(row) => [row.name, row.type, t(`acl.types.${row.type}`), row.value, row.id].join(' ')}
        rowLink={(row) => paths.forwardProxyAcl(row.id)}
        createLink={paths.forwardProxyAclNew}
        order={{ move, name: (row) => row.name, Table: SortableTable }}
        end={<End />}
      />
      <Outlet />
    </>
  )
}

function ActionBadge({ action }: Pick<ForwardProxyAcl, 'action'>) {
  const { t } = useTranslation('forward-proxy')
  const allow = action === 'allow'
  return (
    <Badge tone={allow ? 'live' : 'bad'} icon={allow ? IconCheck : IconBan}>
      {t(`acl.actions.${action}`)}
    </Badge>
  )
}

/** What happens to a request that matches no entry. */
function End() {
  const { t } = useTranslation('forward-proxy')
  return (
    <p className={classes.end}>
      <span>{t('acl.end')}</span>
      <ActionBadge action="allow" />
    </p>
  )
}

function useForm() {
  const { t } = useTranslation('forward-proxy')
  const fields: Fields<'forward-proxy.acl'> = [
    { name: 'name', type: 'text' },
    {
      name: 'type',
      type: 'select',
      choices: aclTypes.map((value) => ({ value, label: t(`acl.types.${value}`) })),
    },
    {
      name: 'value',
      type: 'mono',
      help: ({ type }) => t(`acl.value.helps.${type}`),
      placeholder: ({ type }) => t(`acl.value.examples.${type}`),
    },
    { name: 'action', type: 'segments', options: aclActions },
    { name: 'active', type: 'switch' },
  ]
  return { resource: forwardProxyAcls, text: 'forward-proxy:acl', list: paths.forwardProxy, fields }
}

export function Create() {
  const defaults = { type: 'dstdomain', action: 'deny' }
  return <CreateDrawer {...useForm()} defaults={defaults} />
}

export function Edit() {
  return <EditDrawer {...useForm()} name={(row) => row.name} />
}
