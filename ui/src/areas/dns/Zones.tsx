import { useQuery } from '@tanstack/react-query'
import { Outlet, useNavigate } from '@tanstack/react-router'
import { useMemo, useRef } from 'react'
import { useTranslation } from 'react-i18next'
import { dnsRecords, dnsZones } from '../../api/resources'
import type { DnsZone } from '../../api/types'
import type { Fields } from '../../kit/form/fields'
import { CreateForm } from '../../kit/form/ResourceForm'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { RowSwitch } from '../../kit/list/RowSwitch'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { count } from '../../kit/text/format'
import { paths } from '../../paths'

export const zoneFields: Fields<'dns.zone'> = [
  { name: 'name', type: 'mono' },
  { name: 'forward_to', type: 'list' },
  { name: 'description', type: 'text' },
  { name: 'active', type: 'switch' },
]

/** The number of records in each zone. */
function useRecordCounts() {
  const { data } = useQuery({ queryKey: [dnsRecords.kind], queryFn: dnsRecords.list })
  return useMemo(() => {
    const counts = new Map<string, number>()
    for (const { zone_id } of data ?? []) counts.set(zone_id, (counts.get(zone_id) ?? 0) + 1)
    return counts
  }, [data])
}

export default function Zones() {
  const { t } = useTranslation('dns')
  const counts = useRecordCounts()
  const recordsOf = (row: DnsZone) => counts.get(row.id) ?? 0
  const columns: Column<DnsZone>[] = [
    {
      key: 'active',
      header: t('zone.on'),
      width: '42px',
      cell: (row) => <RowSwitch resource={dnsZones} row={row} field="active" name={row.name} harmless />,
    },
    {
      key: 'name',
      header: t('zone.name.label'),
      width: 'minmax(0, 1.6fr)',
      main: true,
      cell: (row) => <span className={row.active ? 'mono' : 'mono soft'}>{row.name}</span>,
      sortBy: (row) => row.name,
    },
    {
      key: 'records',
      header: t('zone.records'),
      width: '80px',
      align: 'right',
      cell: (row) => count(recordsOf(row)),
      sortBy: recordsOf,
    },
    {
      key: 'forward',
      header: t('zone.rest'),
      width: 'minmax(0, 1.4fr)',
      cell: (row) =>
        row.forward_to.length > 0 ? (
          <span className="mono">{row.forward_to.join(', ')}</span>
        ) : (
          <span className="soft">{t('zone.usual')}</span>
        ),
    },
    {
      key: 'description',
      header: t('zone.description.label'),
      width: 'minmax(0, 1.4fr)',
      cell: (row) => row.description || <span className="soft">–</span>,
      sortBy: (row) => row.description,
    },
  ]
  return (
    <>
      <ResourceList
        resource={dnsZones}
        text="dns:zone"
        columns={columns}
        searchText={(row) => [row.name, row.description, ...row.forward_to, row.id].join(' ')}
        rowLink={(row) => paths.dnsZone(row.id)}
        leaves
        createLink={paths.dnsZoneNew}
      />
      <Outlet />
    </>
  )
}

/** After saving, a new zone opens: its records come next. */
export function Create() {
  const { t } = useTranslation('dns')
  const navigate = useNavigate()
  const made = useRef('')
  const zones: Pick<typeof dnsZones, 'kind' | 'create' | 'past'> = {
    ...dnsZones,
    create: async (body, intent) => {
      const answer = await dnsZones.create(body, intent)
      made.current = answer.value.id
      return answer
    },
  }
  return (
    <DetailDrawer title={t('zone.new')} back={paths.dns}>
      <CreateForm
        resource={zones}
        text="dns:zone"
        fields={zoneFields}
        onDone={() => navigate({ to: paths.dnsZone(made.current) })}
      />
    </DetailDrawer>
  )
}
