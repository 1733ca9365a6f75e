import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useNavigate, useParams } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { dnsRecords, dnsZones } from '../../api/resources'
import type { DnsRecord, DnsZone } from '../../api/types'
import { EditDrawer } from '../../kit/form/ResourceDrawers'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { RowHead } from '../../kit/page/RowHead'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { duration } from '../../kit/text/format'
import { paths } from '../../paths'
import classes from './Dns.module.css'
import { answerOf, fullName, recordTypes, splitName } from './record'
import { zoneFields } from './Zones'

export { Create, Edit } from './RecordForm'

const useZoneId = () => (useParams({ strict: false }) as { zone: string }).zone

/** A zone with its records. */
export default function Zone() {
  const { t } = useTranslation('dns')
  const id = useZoneId()
  const query = useQuery({ queryKey: [dnsZones.kind], queryFn: dnsZones.list })
  return (
    <Loaded query={query} height={240}>
      {(zones) => {
        const zone = zones.find((one) => one.id === id)
        return zone ? (
          <>
            <Head zone={zone} />
            <Records zone={zone} />
            <Outlet />
          </>
        ) : (
          <Notice tone="warn" title={t('zone.gone')} action={<Link to={paths.dns}>{t('zone.all')}</Link>} />
        )
      }}
    </Loaded>
  )
}

function Head({ zone }: { zone: DnsZone }) {
  const { t } = useTranslation('dns')
  return (
    <RowHead
      list={{ to: paths.dns, title: t('zone.all') }}
      name={zone.name}
      edit={{ to: paths.dnsZoneEdit(zone.id), title: t('zone.change') }}
    >
      {!zone.active && <Badge tone="off">{t('zone.isOff')}</Badge>}
      <span className="soft">
        {zone.forward_to.length > 0 ? t('zone.forwarded', { to: zone.forward_to.join(', ') }) : t('zone.notForwarded')}
      </span>
    </RowHead>
  )
}

function Records({ zone }: { zone: DnsZone }) {
  const { t } = useTranslation('dns')
  const columns: Column<DnsRecord>[] = [
    {
      key: 'name',
      header: t('record.name.label'),
      width: 'minmax(0, 1.3fr)',
      cell: (row) => {
        const [own, rest] = splitName(row, zone.name)
        return (
          <span className="mono">
            {own}
            <span className={classes.rest}>{rest}</span>
          </span>
        )
      },
      sortBy: (row) => fullName(row.name, zone.name),
    },
    {
      key: 'type',
      header: t('record.type.label'),
      width: '70px',
      cell: (row) => <span className={classes.type}>{row.type}</span>,
      sortBy: (row) => row.type,
    },
    {
      key: 'value',
      header: t('record.value.label'),
      width: 'minmax(0, 2fr)',
      cell: (row) => (
        <span className={`mono ${classes.value}`} title={answerOf(row)}>
          {answerOf(row)}
        </span>
      ),
      sortBy: answerOf,
    },
    {
      key: 'ttl',
      header: t('record.ttl.short'),
      width: '80px',
      align: 'right',
      cell: (row) => <span title={`${row.ttl} s`}>{duration(row.ttl)}</span>,
      sortBy: (row) => row.ttl,
    },
  ]
  return (
    <ResourceList
      resource={dnsRecords}
      join={(rows) => rows.filter(({ zone_id }) => zone_id === zone.id)}
      text="dns:record"
      columns={columns}
      filters={[
        {
          key: 'type',
          label: t('record.type.label'),
          options: recordTypes.map((value) => ({ value, label: value })),
          of: (row) => row.type,
        },
      ]}
      searchText={(row) => [fullName(row.name, zone.name), row.type, answerOf(row), row.id].join(' ')}
      rowLink={(row) => paths.dnsRecord(zone.id, row.id)}
      createLink={paths.dnsRecordNew(zone.id)}
    />
  )
}

/** The form for the zone itself, with its deletion. */
export function EditZone() {
  const navigate = useNavigate()
  const id = useZoneId()
  return (
    <EditDrawer
      of={id}
      list={paths.dnsZone(id)}
      resource={dnsZones}
      text="dns:zone"
      fields={zoneFields}
      name={(zone) => zone.name}
      onGone={() => navigate({ to: paths.dns })}
    />
  )
}
