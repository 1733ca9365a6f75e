import { useQuery } from '@tanstack/react-query'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { dhcpReservations, dhcpSubnets } from '../../api/resources'
import type { DhcpReservation } from '../../api/types'
import type { Fields, Values } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import { useDraft } from '../../kit/form/useDraft'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { paths } from '../../paths'
import { rank, spellings } from './subnet'

function useSubnets() {
  const { data = [] } = useQuery({ queryKey: [dhcpSubnets.kind], queryFn: dhcpSubnets.list })
  return data.map(({ id, cidr }) => ({ value: id, label: cidr }))
}

export default function Reservations() {
  const { t } = useTranslation('dhcp')
  const subnets = useSubnets()
  const cidrOf = (row: DhcpReservation) => subnets.find(({ value }) => value === row.subnet_id)?.label ?? ''
  const columns: Column<DhcpReservation>[] = [
    {
      key: 'ip',
      header: t('reservation.ip.label'),
      cell: (row) => <span className="mono">{row.ip}</span>,
      sortBy: (row) => rank(row.ip),
    },
    {
      key: 'mac',
      header: t('reservation.mac.label'),
      cell: (row) => <span className="mono">{row.mac}</span>,
      sortBy: (row) => row.mac,
    },
    {
      key: 'hostname',
      header: t('reservation.hostname.label'),
      width: 'minmax(0, 1.4fr)',
      cell: (row) => row.hostname || <span className="soft">–</span>,
      sortBy: (row) => row.hostname,
    },
    {
      key: 'subnet',
      header: t('reservation.subnet_id.label'),
      cell: (row) => <span className="mono">{cidrOf(row)}</span>,
      sortBy: cidrOf,
    },
  ]
  return (
    <>
      <ResourceList
        resource={dhcpReservations}
        text="dhcp:reservation"
        columns={columns}
        filters={[
          {
            key: 'subnet',
            label: t('reservation.subnet_id.label'),
            options: subnets,
            of: (row) => row.subnet_id,
            many: true,
          },
        ]}
        searchText={(row) => [row.ip, ...spellings(row.mac), row.hostname, row.id].join(' ')}
        rowLink={(row) => paths.dhcpReservation(row.id)}
        createLink={paths.dhcpReservationNew}
      />
      <Outlet />
    </>
  )
}

function useForm() {
  const fields: Fields<'dhcp.reservation'> = [
    { name: 'subnet_id', type: 'select', choices: useSubnets() },
    { name: 'mac', type: 'mono' },
    { name: 'ip', type: 'mono' },
    { name: 'hostname', type: 'mono' },
  ]
  return { resource: dhcpReservations, text: 'dhcp:reservation', list: paths.dhcpReservations, fields }
}

/** The form for a new reservation. A lease can fill it in. */
export function Create() {
  const draft = useDraft<Values>()
  return <CreateDrawer {...useForm()} defaults={draft} />
}

export function Edit() {
  return <EditDrawer {...useForm()} name={(row) => `${row.mac} ${row.ip}`} />
}
