import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, Outlet } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { tunnels } from '../../api/resources'
import type { Tunnel, TunnelPeer } from '../../api/types'
import type { Column } from '../../kit/list/DataTable'
import { grouped } from '../../kit/list/list-logic'
import { ResourceList } from '../../kit/list/ResourceList'
import { RowSwitch } from '../../kit/list/RowSwitch'
import { FaultNotice } from '../../kit/state/Loaded'
import { count } from '../../kit/text/format'
import { paths } from '../../paths'
import { heardOn, linkOf, peersOf, type Traffic, trafficOf } from './live'
import { LinkBadge, Rates } from './marks'
import { devicesQuery, importableQuery, liveQuery, peersQuery } from './resources'
import classes from './Tunnels.module.css'
import { listOf } from './tunnel'

export { Create } from './TunnelForm'

const none: TunnelPeer[] = []

/** A tunnel with its live state. */
interface Row extends Tunnel {
  peers: { all: number; online: number }
  traffic: Traffic
}

export default function Tunnels() {
  const { t } = useTranslation('tunnels')
  const live = useQuery(liveQuery)
  const { data: devices } = useQuery(devicesQuery)
  const { data: peers } = useQuery(peersQuery)
  const join = useMemo(() => {
    const own = grouped(peers ?? none, (peer) => peer.interface_id)
    const heard = heardOn(live.data)
    return (rows: Tunnel[]) =>
      rows.map(
        (row): Row => ({
          ...row,
          peers: peersOf(row, own.get(row.id) ?? none, live.data),
          traffic: trafficOf(heard.get(row.name)),
        }),
      )
  }, [live.data, peers])
  const columns: Column<Row>[] = [
    {
      key: 'active',
      header: t('tunnel.on'),
      width: '42px',
      cell: (row) => <RowSwitch resource={tunnels} row={row} field="active" name={row.name} />,
    },
    {
      key: 'name',
      header: t('tunnel.name.label'),
      main: true,
      cell: (row) => (
        <span className={classes.stack}>
          <span className={row.active ? 'mono' : 'mono soft'}>{row.name}</span>
          <small className={classes.under}>{t(`tunnel.modes.${row.mode}`)}</small>
        </span>
      ),
      sortBy: (row) => row.name,
    },
    {
      key: 'address',
      header: t('tunnel.address_cidr.label'),
      width: 'minmax(0, 1.3fr)',
      cell: (row) => <span className="mono">{listOf(row.address_cidr).join(', ')}</span>,
      sortBy: (row) => row.address_cidr,
    },
    {
      key: 'port',
      header: t('tunnel.listen_port.short'),
      width: '70px',
      align: 'right',
      cell: (row) => row.listen_port || <span className="soft">{t('tunnel.anyPort')}</span>,
      sortBy: (row) => row.listen_port,
    },
    {
      key: 'peers',
      header: t('tunnel.peers'),
      width: '120px',
      align: 'right',
      cell: (row) => t('tunnel.online', { online: count(row.peers.online), all: count(row.peers.all) }),
      sortBy: (row) => row.peers.online,
    },
    {
      key: 'state',
      header: t('tunnel.state'),
      width: 'minmax(110px, 1fr)',
      cell: (row) => <LinkBadge tunnel={row} devices={devices} />,
      sortBy: (row) => linkOf(row, devices).state,
    },
    {
      key: 'traffic',
      header: t('live.now'),
      width: '190px',
      align: 'right',
      cell: (row) => <Rates traffic={row.traffic} />,
      sortBy: (row) => row.traffic.rx_rate + row.traffic.tx_rate,
    },
  ]
  return (
    <>
      {live.isError && <FaultNotice fault={live.error} />}
      <ResourceList
        resource={tunnels}
        join={join}
        text="tunnels:tunnel"
        columns={columns}
        filters={[
          {
            key: 'mode',
            label: t('tunnel.modeWord'),
            options: (['server', 'client'] as const).map((value) => ({ value, label: t(`tunnel.modes.${value}`) })),
            of: (row) => row.mode,
          },
        ]}
        searchText={(row) =>
          [row.name, row.address_cidr, row.listen_port, row.upstream_endpoint, row.public_key, row.id].join(' ')
        }
        rowLink={(row) => paths.tunnel(row.id)}
        leaves
        createLink={paths.tunnelNew}
        beside={<ImportButton />}
      />
      <Outlet />
    </>
  )
}

/** The link to import configurations, with the number of those that are not imported yet. */
function ImportButton() {
  const { t } = useTranslation('tunnels')
  const { data = [] } = useQuery(importableQuery)
  const waiting = data.filter((file) => !file.already_in && !file.error).length
  return (
    <Button component={Link} to={paths.tunnelImport} variant="default">
      {waiting > 0 ? t('import.some', { count: waiting }) : t('import.verb')}
    </Button>
  )
}
