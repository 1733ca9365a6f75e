import './texts'
import { Outlet } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { backends } from '../../api/resources'
import type { Backend, Server } from '../../api/types'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { RowSwitch } from '../../kit/list/RowSwitch'
import { Page } from '../../kit/page/Page'
import { Badge } from '../../kit/state/StateBadge'
import { count } from '../../kit/text/format'
import { paths } from '../../paths'
import { type Health, type Live, type Stat, useLive } from './health'
import { HealthBadge } from './marks'
import classes from './Proxy.module.css'
import { ServerState } from './Servers'
import { Unasked } from './Unasked'
import { useBackends, useBackendUsers } from './useSites'

export { Create, Edit } from './BackendForm'

/** A backend with its live state. */
interface Row extends Backend {
  machines: readonly Server[]
  health: Health
  stat: Stat | undefined
  users: number
}

const healths: Health[] = ['up', 'degraded', 'down', 'empty']
/** How many servers to list; the rest are counted. */
const shown = 4

export default function BackendsPage() {
  const { t } = useTranslation('proxy')
  const live = useLive()
  const { serversOf } = useBackends()
  const { domains, rules } = useBackendUsers()
  const join = useMemo(
    () => (rows: Backend[]) =>
      rows.map((row): Row => {
        const machines = serversOf(row.id)
        return {
          ...row,
          machines,
          health: live.healthOf(row, machines),
          stat: live.backend(row.id),
          users: (domains.get(row.id)?.length ?? 0) + (rules.get(row.id)?.length ?? 0),
        }
      }),
    [live, serversOf, domains, rules],
  )
  const columns: Column<Row>[] = [
    {
      key: 'active',
      header: t('on'),
      width: '42px',
      cell: (row) => <RowSwitch resource={backends} row={row} field="active" name={row.name} harmless />,
      sortBy: (row) => row.active,
    },
    {
      key: 'name',
      header: t('backend.name.label'),
      width: 'minmax(0, 1.2fr)',
      main: true,
      cell: (row) => (
        <span className={classes.stack}>
          <span className={row.active ? undefined : classes.off}>{row.name}</span>
          <small className={classes.under}>
            {row.scheme.toUpperCase()} · {t(`backend.lb_algorithm.options.${row.lb_algorithm}`)}
          </small>
        </span>
      ),
      sortBy: (row) => row.name,
    },
    {
      key: 'health',
      header: t('backend.health'),
      width: '150px',
      cell: (row) => <HealthBadge health={row.health} />,
      sortBy: (row) => row.health,
    },
    {
      key: 'servers',
      header: t('backend.servers'),
      width: 'minmax(0, 2fr)',
      cell: (row) => <Machines row={row} live={live} />,
      sortBy: (row) => row.machines.length,
    },
    {
      key: 'rate',
      header: t('stats.rate'),
      width: '76px',
      align: 'right',
      cell: (row) => (row.stat ? count(row.stat.req_rate) : '–'),
      sortBy: (row) => row.stat?.req_rate,
    },
    {
      key: 'users',
      header: t('backend.users'),
      width: '70px',
      align: 'right',
      cell: (row) => count(row.users),
      sortBy: (row) => row.users,
    },
  ]
  return (
    <Page title={t('backend.title')} lead={t('backend.lead')}>
      <Unasked live={live} />
      <ResourceList
        resource={backends}
        join={join}
        text="proxy:backend"
        columns={columns}
        filters={[
          {
            key: 'health',
            label: t('backend.health'),
            options: healths.map((value) => ({ value, label: t(`healths.${value}.word`) })),
            of: (row) => row.health,
          },
        ]}
        searchText={(row) =>
          [row.name, row.scheme, row.id, ...row.machines.flatMap((one) => [one.name, one.address, one.port])].join(' ')
        }
        rowLink={(row) => paths.backend(row.id)}
        createLink={paths.backendNew}
      />
      <Outlet />
    </Page>
  )
}

function Machines({ row: { active, machines }, live }: { row: Row; live: Live }) {
  const { t } = useTranslation('proxy')
  if (machines.length === 0) {
    return active ? (
      <Badge tone="warn">{t('backend.answers503')}</Badge>
    ) : (
      <span className="soft">{t('server.none')}</span>
    )
  }
  return (
    <ul className={classes.servers}>
      {machines.slice(0, shown).map((server) => (
        <li key={server.id}>
          <span className="mono">{`${server.address}:${server.port}`}</span>
          <ServerState server={server} live={live} />
        </li>
      ))}
      {machines.length > shown && <li className="soft">{t('backend.more', { count: machines.length - shown })}</li>}
    </ul>
  )
}
