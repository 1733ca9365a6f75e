import './texts'
import { useDebouncedValue } from '@mantine/hooks'
import { useQuery } from '@tanstack/react-query'
import { Outlet, useSearch } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import type { Client } from '../../api/types'
import type { Column } from '../../kit/list/DataTable'
import type { ListSearch } from '../../kit/list/list-logic'
import { RowList } from '../../kit/list/ResourceList'
import { Page } from '../../kit/page/Page'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { count } from '../../kit/text/format'
import { paths } from '../../paths'
import { spellings } from '../dhcp/subnet'
import { nameOf } from './block'
import classes from './Clients.module.css'
import { Make, Presence, Traffic } from './marks'
import { clientsQuery } from './resources'

export { Block } from './Block'
export { Detail } from './Detail'

const sources = ['neighbours', 'leases', 'tunnels', 'radius'] as const
const states = ['online', 'offline', 'blocked'] as const

const statesOf = ({ online, blocked_by }: Client) => [
  online ? 'online' : 'offline',
  ...(blocked_by.length > 0 ? ['blocked'] : []),
]

/** Who is on the network. */
export default function ClientsPage() {
  const { t } = useTranslation('clients')
  const { q = '' } = useSearch({ strict: false }) as ListSearch
  const [word] = useDebouncedValue(q.trim().split(/\s+/, 1)[0] ?? '', 250)
  const query = useQuery(clientsQuery(word))
  const { clients = [], matching = 0, counted = false, problems = [] } = query.data ?? {}
  const columns = useColumns(counted || clients.some(({ sent_bytes }) => sent_bytes !== null))
  const zones = [...new Set(clients.map(({ zone }) => zone).filter(Boolean))].sort()
  return (
    <Page title={t('client.title')} lead={t('lead')}>
      {problems.length > 0 && (
        <Notice tone="warn" title={t('problems')}>
          {problems.map(({ source, error }) => (
            <div key={source}>{error}</div>
          ))}
        </Notice>
      )}
      <RowList
        query={query}
        rowsOf={({ clients }) => clients}
        text="clients:client"
        columns={columns}
        filters={[
          {
            key: 'state',
            label: t('client.state'),
            options: states.map((value) => ({ value, label: t(`client.states.${value}`) })),
            of: statesOf,
          },
          {
            key: 'zone',
            label: t('client.zone'),
            options: zones.map((value) => ({ value, label: value })),
            of: ({ zone }) => zone,
            many: true,
          },
          {
            key: 'source',
            label: t('client.source'),
            options: sources.map((value) => ({ value, label: t(`client.sources.${value}`) })),
            of: ({ sources }) => sources,
            many: true,
          },
        ]}
        searchText={(row) =>
          [
            row.name,
            row.vendor,
            row.user,
            row.zone,
            ...spellings(row.mac),
            ...row.addresses.map(({ address }) => address),
            ...row.networks,
          ].join(' ')
        }
        rowLink={({ id }) => paths.client(id)}
        end={
          matching > clients.length && (
            <p className={classes.note}>{t('client.more', { shown: count(clients.length), total: count(matching) })}</p>
          )
        }
      />
      <Outlet />
    </Page>
  )
}

function useColumns(measured: boolean): Column<Client>[] {
  const { t } = useTranslation('clients')
  return useMemo(() => {
    const traffic: Column<Client> = {
      key: 'traffic',
      header: t('client.traffic'),
      width: '170px',
      align: 'right',
      cell: (row) => <Traffic client={row} />,
      sortBy: ({ sent_bytes, received_bytes }) => (sent_bytes ?? 0) + (received_bytes ?? 0),
    }
    return [
      {
        key: 'name',
        header: t('client.name'),
        main: true,
        width: 'minmax(0, 1.3fr)',
        cell: (row) => (
          <span className={classes.stack}>
            <span className={row.name ? undefined : 'mono'}>{nameOf(row)}</span>
            <small className="soft">
              <Make client={row} />
            </small>
          </span>
        ),
        sortBy: nameOf,
      },
      {
        key: 'address',
        header: t('client.address'),
        cell: ({ addresses, networks }) => (
          <span className={classes.stack}>
            <span className="mono">{addresses[0]?.address ?? networks[0] ?? '–'}</span>
            {addresses.length > 1 && (
              <small className="soft" title={addresses.map(({ address }) => address).join('\n')}>
                {t('client.moreAddresses', { count: addresses.length - 1 })}
              </small>
            )}
          </span>
        ),
        sortBy: ({ addresses }) => addresses[0]?.address,
      },
      {
        key: 'mac',
        header: t('client.mac'),
        width: '146px',
        cell: ({ mac }) => <span className="mono">{mac || '–'}</span>,
        sortBy: ({ mac }) => mac,
      },
      {
        key: 'zone',
        header: t('client.zone'),
        width: '84px',
        cell: ({ zone }) => zone || <span className="soft">–</span>,
        sortBy: ({ zone }) => zone,
      },
      {
        key: 'state',
        header: t('client.state'),
        width: '130px',
        cell: (row) => (
          <span className={classes.badges}>
            <Presence client={row} />
            {row.blocked_by.length > 0 && <Badge tone="bad">{t('client.states.blocked')}</Badge>}
          </span>
        ),
        sortBy: ({ last_seen }) => last_seen,
      },
      ...(measured ? [traffic] : []),
    ]
  }, [t, measured])
}
