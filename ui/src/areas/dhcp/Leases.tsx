import { Button } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { IconPin } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { dhcpSubnets } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { DhcpLease } from '../../api/types'
import type { Column } from '../../kit/list/DataTable'
import type { ListSearch } from '../../kit/list/list-logic'
import { RowList } from '../../kit/list/ResourceList'
import { Panel } from '../../kit/page/Page'
import { Notice, type Tone } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { count } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import classes from './Dhcp.module.css'
import { PoolBar } from './PoolBar'
import { leasesQuery } from './resources'
import { rank, spellings, usableName } from './subnet'

type Row = DhcpLease & { id: string }

const tones: Record<DhcpLease['state'], Tone> = { active: 'live', declined: 'warn', expired: 'off' }
const states = ['active', 'declined', 'expired'] as const

/** Current leases. */
export default function Leases() {
  const { t } = useTranslation('dhcp')
  const { q = '' } = useSearch({ strict: false }) as ListSearch
  const [word] = useDebouncedValue(q.trim().split(/\s+/, 1)[0] ?? '', 250)
  const query = useQuery(leasesQuery(word))
  const { data: subnets = [] } = useQuery({ queryKey: [dhcpSubnets.kind], queryFn: dhcpSubnets.list })
  const columns = useColumns()
  const { error, leases = [], total = 0 } = query.data ?? {}
  return (
    <>
      {error && (
        <Notice tone="warn" title={t('lease.unknown')}>
          {error}
        </Notice>
      )}
      {subnets.length > 0 && (
        <Panel title={t('pool.title')}>
          <ul className={classes.pools}>
            {subnets.map((subnet) => (
              <li key={subnet.id}>
                <Link to={paths.dhcpSubnet(subnet.id)} className="mono">
                  {subnet.cidr}
                </Link>
                {subnet.active ? (
                  <PoolBar usage={query.data?.usage.get(subnet.id)} />
                ) : (
                  <Badge tone="off">{t('common:off')}</Badge>
                )}
              </li>
            ))}
          </ul>
        </Panel>
      )}
      {!(error && leases.length === 0) && (
        <RowList
          query={query}
          rowsOf={({ leases }) => leases}
          text="dhcp:lease"
          columns={columns}
          filters={[
            {
              key: 'state',
              label: t('lease.state'),
              options: states.map((value) => ({ value, label: t(`lease.states.${value}`) })),
              of: (row) => row.state,
            },
            {
              key: 'subnet',
              label: t('reservation.subnet_id.label'),
              options: subnets.map(({ id, cidr }) => ({ value: id, label: cidr })),
              of: (row) => row.subnet_id,
              many: true,
            },
          ]}
          searchText={(row) => [row.ip, ...spellings(row.mac), row.hostname].join(' ')}
          createLink={subnets.length === 0 ? paths.dhcpSubnetNew : undefined}
          end={
            total > leases.length && (
              <p className={classes.more}>{t('lease.more', { shown: count(leases.length), total: count(total) })}</p>
            )
          }
        />
      )}
    </>
  )
}

function useColumns(): Column<Row>[] {
  const { t } = useTranslation('dhcp')
  const canEdit = useCanEdit()
  return [
    {
      key: 'ip',
      header: t('lease.ip'),
      cell: (row) => <span className="mono">{row.ip}</span>,
      sortBy: (row) => rank(row.ip),
    },
    {
      key: 'hostname',
      header: t('lease.hostname'),
      width: 'minmax(0, 1.4fr)',
      cell: (row) => row.hostname || <span className="soft">{t('lease.nameless')}</span>,
      sortBy: (row) => row.hostname,
    },
    {
      key: 'mac',
      header: t('lease.mac'),
      width: '150px',
      cell: (row) => <span className="mono">{row.mac}</span>,
      sortBy: (row) => row.mac,
    },
    {
      key: 'state',
      header: t('lease.state'),
      width: '100px',
      cell: (row) => (
        <span title={t(`lease.stateHelp.${row.state}`)}>
          <Badge tone={tones[row.state]}>{t(`lease.states.${row.state}`)}</Badge>
        </span>
      ),
      sortBy: (row) => row.state,
    },
    {
      key: 'starts',
      header: t('lease.starts'),
      width: '100px',
      cell: (row) => <Time at={row.starts_at} />,
      sortBy: (row) => row.starts_at,
    },
    {
      key: 'expires',
      header: t('lease.expires'),
      width: '100px',
      cell: (row) => <Time at={row.expires_at} />,
      sortBy: (row) => row.expires_at,
    },
    {
      key: 'reservation',
      header: t('lease.reservation'),
      width: '170px',
      align: 'right',
      cell: (row) => <Reserve row={row} canEdit={canEdit} />,
      sortBy: (row) => row.reservation_id !== null,
    },
  ]
}

/** A link to the lease's reservation, or a button to create one. */
function Reserve({ row, canEdit }: { row: Row; canEdit: boolean }) {
  const { t } = useTranslation('dhcp')
  if (row.reservation_id) return <Link to={paths.dhcpReservation(row.reservation_id)}>{t('lease.reserved')}</Link>
  if (!canEdit || !row.mac) return <span className="soft">–</span>
  const { subnet_id, mac, ip, hostname } = row
  return (
    <Button
      component={Link}
      to={paths.dhcpReservationNew}
      state={{ draft: { subnet_id, mac, ip, hostname: usableName(hostname) } } as never}
      size="compact-xs"
      variant="default"
      leftSection={<IconPin size={13} aria-hidden />}
      aria-label={t('lease.reserveOf', { ip })}
    >
      {t('lease.reserve')}
    </Button>
  )
}
