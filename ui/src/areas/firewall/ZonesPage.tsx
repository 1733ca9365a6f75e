import './texts'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { zones } from '../../api/resources'
import type { Fields } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import { ResourceList } from '../../kit/list/ResourceList'
import { Page } from '../../kit/page/Page'
import { paths } from '../../paths'
import { interfaceKind, useUsage } from './book'
import classes from './Firewall.module.css'
import { Builtin, UsedBy } from './marks'

const fields: Fields<'firewall.zone'> = [
  { name: 'name', type: 'mono' },
  { name: 'description', type: 'text' },
]
const form = { resource: zones, text: 'firewall:zone', list: paths.zones, fields }

export default function ZonesPage() {
  const { t } = useTranslation('firewall')
  const usage = useUsage()
  const users = (id: string, ofInterface: boolean) =>
    usage.get(id)?.filter(({ kind }) => (kind === interfaceKind) === ofInterface) ?? []
  return (
    <Page title={t('zone.title')} lead={t('zone.lead')}>
      <ResourceList
        resource={zones}
        text="firewall:zone"
        columns={[
          {
            key: 'name',
            header: t('zone.name.label'),
            cell: (row) => (
              <>
                {row.name} <Builtin builtin={row.builtin} />
              </>
            ),
            sortBy: (row) => row.name,
          },
          {
            key: 'interfaces',
            header: t('zone.interfaces'),
            cell: (row) => (
              <span className={classes.members}>
                {users(row.id, true).map(({ id, name }) => (
                  <span key={id} className={`${classes.tag} mono`}>
                    {name}
                  </span>
                ))}
                {users(row.id, true).length === 0 && <span className="soft">{t('zone.noInterface')}</span>}
              </span>
            ),
            sortBy: (row) => users(row.id, true).length,
          },
          {
            key: 'description',
            header: t('zone.description.label'),
            width: 'minmax(0, 1.6fr)',
            cell: (row) => row.description || '–',
          },
          {
            key: 'rules',
            header: t('zone.rules'),
            width: '70px',
            align: 'right',
            cell: (row) => <UsedBy users={users(row.id, false)} name={row.name} />,
            sortBy: (row) => users(row.id, false).length,
          },
        ]}
        searchText={(row) =>
          [row.name, row.description, row.id, ...users(row.id, true).map((one) => one.name)].join(' ')
        }
        rowLink={(row) => paths.zone(row.id)}
        createLink={paths.zoneNew}
      />
      <Outlet />
    </Page>
  )
}

export function Create() {
  return <CreateDrawer {...form} />
}

/** The name of a built-in zone is fixed, but its description can be changed. */
export function Edit() {
  const { t } = useTranslation('firewall')
  return (
    <EditDrawer
      {...form}
      name={(row) => row.name}
      keep={(row) => (row.builtin ? t('zone.builtinStays') : undefined)}
      fixed={(row) => (row.builtin ? ['name'] : [])}
    />
  )
}
