import { Button } from '@mantine/core'
import { IconQrcode } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { peers } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { Tunnel, TunnelPeer } from '../../api/types'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { RowSwitch } from '../../kit/list/RowSwitch'
import { Badge } from '../../kit/state/StateBadge'
import { paths } from '../../paths'
import { liveOf, type PeerLive } from './live'
import { PeerBadge, Rates, Totals } from './marks'
import { liveQuery } from './resources'
import classes from './Tunnels.module.css'
import { listOf } from './tunnel'

/** A peer with its live state. */
interface Row extends TunnelPeer {
  live: PeerLive | undefined
}

const states = ['online', 'offline'] as const

export function Peers({ tunnel }: { tunnel: Tunnel }) {
  const { t } = useTranslation('tunnels')
  const canEdit = useCanEdit()
  const { data: live } = useQuery(liveQuery)
  const join = useMemo(
    () => (rows: TunnelPeer[]) =>
      rows
        .filter(({ interface_id }) => interface_id === tunnel.id)
        .map((row): Row => ({ ...row, live: liveOf(live, tunnel, row.public_key) })),
    [live, tunnel],
  )
  const config: Column<Row> = {
    key: 'config',
    header: t('config.short'),
    width: '48px',
    align: 'right',
    cell: (row) => (
      <Button
        component={Link}
        to={paths.peerConfig(tunnel.id, row.id)}
        size="compact-xs"
        variant="default"
        aria-label={t('config.of', { name: row.name })}
      >
        <IconQrcode size={15} aria-hidden />
      </Button>
    ),
  }
  const columns: Column<Row>[] = [
    {
      key: 'active',
      header: t('peer.on'),
      width: '42px',
      cell: (row) => <RowSwitch resource={peers} row={row} field="active" name={row.name} />,
    },
    {
      key: 'name',
      header: t('peer.name.label'),
      main: true,
      cell: (row) => <span className={row.active ? undefined : 'soft'}>{row.name}</span>,
      sortBy: (row) => row.name,
    },
    {
      key: 'state',
      header: t('tunnel.state'),
      width: '140px',
      cell: (row) => <PeerBadge live={row.live} active={row.active} />,
      sortBy: (row) => (row.live?.last_handshake ? Date.parse(row.live.last_handshake) : 0),
    },
    {
      key: 'address',
      header: t('peer.allowed_ips.short'),
      width: 'minmax(0, 1.1fr)',
      cell: (row) => (
        <span className={classes.stack}>
          <span className="mono">{listOf(row.allowed_ips).join(', ')}</span>
          {row.warnings.length > 0 && (
            <span title={row.warnings.join(' ')}>
              <Badge tone="warn">{t('peer.wide')}</Badge>
            </span>
          )}
        </span>
      ),
      sortBy: (row) => row.allowed_ips,
    },
    {
      key: 'endpoint',
      header: t('live.endpoint'),
      width: '160px',
      cell: (row) => {
        const place = row.live?.endpoint || row.endpoint
        return place ? <span className="mono">{place}</span> : <span className="soft">–</span>
      },
      sortBy: (row) => row.live?.endpoint || row.endpoint,
    },
    {
      key: 'total',
      header: t('live.total'),
      width: '150px',
      align: 'right',
      cell: (row) => <Totals live={row.live} />,
      sortBy: (row) => (row.live ? row.live.rx + row.live.tx : 0),
    },
    {
      key: 'now',
      header: t('live.now'),
      width: '150px',
      align: 'right',
      cell: (row) => <Rates traffic={row.live} />,
      sortBy: (row) => (row.live ? row.live.rx_rate + row.live.tx_rate : 0),
    },
    ...(canEdit ? [config] : []),
  ]
  return (
    <ResourceList
      resource={peers}
      join={join}
      text="tunnels:peer"
      columns={columns}
      filters={[
        {
          key: 'state',
          label: t('tunnel.state'),
          options: states.map((value) => ({ value, label: t(`live.${value}`) })),
          of: (row) => (row.live?.online ? 'online' : 'offline'),
        },
      ]}
      searchText={(row) =>
        [row.name, row.allowed_ips, row.endpoint, row.live?.endpoint, row.public_key, row.id].join(' ')
      }
      rowLink={(row) => paths.peer(tunnel.id, row.id)}
      createLink={paths.peerNew(tunnel.id)}
    />
  )
}
