import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { ResourceList } from '../../kit/list/ResourceList'
import { Badge } from '../../kit/state/StateBadge'
import { isOurs, liveRoutes, protocolOf, tableOf, valuesOf, withIds } from './live-routes'

/** The kernel's routes in all tables, including those of other programs. */
export default function LiveRoutes() {
  const { t } = useTranslation('network')
  const { data = [] } = useQuery({ queryKey: [liveRoutes.kind], queryFn: liveRoutes.list })
  const mono = (text: string) => (text ? <span className="mono">{text}</span> : '–')
  return (
    <ResourceList
      resource={liveRoutes}
      join={withIds}
      every={5000}
      text="network:liveRoute"
      columns={[
        {
          key: 'destination',
          header: t('route.destination.label'),
          width: 'minmax(0, 1.6fr)',
          cell: (row) => mono(row.destination),
          sortBy: (row) => row.destination,
        },
        {
          key: 'gateway',
          header: t('route.gateway.label'),
          width: 'minmax(0, 1.2fr)',
          cell: (row) => mono(row.gateway),
          sortBy: (row) => row.gateway,
        },
        { key: 'dev', header: t('route.dev.label'), cell: (row) => mono(row.dev), sortBy: (row) => row.dev },
        { key: 'type', header: t('liveRoute.type'), width: '84px', cell: (row) => row.type, sortBy: (row) => row.type },
        {
          key: 'metric',
          header: t('route.metric.label'),
          width: '60px',
          align: 'right',
          cell: (row) => row.metric,
          sortBy: (row) => row.metric,
        },
        { key: 'table', header: t('route.table_name.label'), width: '80px', cell: tableOf, sortBy: tableOf },
        {
          key: 'protocol',
          header: t('liveRoute.protocol'),
          width: '90px',
          cell: protocolOf,
          sortBy: (row) => row.protocol,
        },
        {
          key: 'managed',
          header: t('liveRoute.madeBy'),
          width: '110px',
          cell: (row) =>
            isOurs(row) ? <Badge tone="live">{t('address.kinds.managed')}</Badge> : <span className="soft">–</span>,
          sortBy: (row) => isOurs(row),
        },
      ]}
      filters={[
        {
          key: 'family',
          label: t('liveRoute.family'),
          options: (['inet', 'inet6'] as const).map((value) => ({ value, label: t(`liveRoute.families.${value}`) })),
          of: (row) => row.family,
        },
        {
          key: 'table',
          label: t('route.table_name.label'),
          options: valuesOf(data, tableOf),
          of: tableOf,
          many: true,
        },
        {
          key: 'protocol',
          label: t('liveRoute.protocol'),
          options: valuesOf(data, protocolOf),
          of: protocolOf,
          many: true,
        },
      ]}
      searchText={(row) =>
        [row.destination, row.gateway, row.dev, row.type, row.scope, row.prefsrc, tableOf(row), protocolOf(row)].join(
          ' ',
        )
      }
    />
  )
}
