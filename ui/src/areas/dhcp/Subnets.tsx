import { useQuery } from '@tanstack/react-query'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { dhcpSubnets, dnsSettings, ntpSettings } from '../../api/resources'
import type { DhcpSubnet } from '../../api/types'
import type { Fields, Values } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { RowSwitch } from '../../kit/list/RowSwitch'
import { paths } from '../../paths'
import { useLinks } from '../network/useLinks'
import { PoolBar } from './PoolBar'
import { leasesQuery } from './resources'
import { networkOf, propose, rank, serverAt } from './subnet'

export default function Subnets() {
  const { t } = useTranslation('dhcp')
  const leases = useQuery(leasesQuery())
  const columns: Column<DhcpSubnet>[] = [
    {
      key: 'active',
      header: t('subnet.on'),
      width: '42px',
      cell: (row) => <RowSwitch resource={dhcpSubnets} row={row} field="active" name={row.cidr} harmless />,
    },
    {
      key: 'cidr',
      header: t('subnet.cidr.label'),
      main: true,
      cell: (row) => <span className={row.active ? 'mono' : 'mono soft'}>{row.cidr}</span>,
      sortBy: (row) => rank(row.cidr.split('/')[0] ?? ''),
    },
    {
      key: 'interface',
      header: t('subnet.interface.label'),
      width: '110px',
      cell: (row) => <span className="mono">{row.interface}</span>,
      sortBy: (row) => row.interface,
    },
    {
      key: 'range',
      header: t('subnet.range'),
      width: 'minmax(0, 1.4fr)',
      cell: (row) => <span className="mono">{`${row.range_start} – ${row.range_end}`}</span>,
      sortBy: (row) => rank(row.range_start),
    },
    {
      key: 'gateway',
      header: t('subnet.gateway.label'),
      cell: (row) => (row.gateway ? <span className="mono">{row.gateway}</span> : <span className="soft">–</span>),
    },
    {
      key: 'pool',
      header: t('pool.column'),
      width: 'minmax(160px, 1.2fr)',
      cell: (row) => <PoolBar usage={leases.data?.usage.get(row.id)} />,
      sortBy: (row) => leases.data?.usage.get(row.id)?.leased,
    },
  ]
  return (
    <>
      <ResourceList
        resource={dhcpSubnets}
        text="dhcp:subnet"
        columns={columns}
        searchText={(row) =>
          [row.cidr, row.interface, row.range_start, row.range_end, row.gateway, row.domain_name, row.id].join(' ')
        }
        rowLink={(row) => paths.dhcpSubnet(row.id)}
        createLink={paths.dhcpSubnetNew}
      />
      <Outlet />
    </>
  )
}

/** The addresses on which the gateway serves DNS and NTP. */
function useListening() {
  const dns = useQuery({ queryKey: [dnsSettings.kind], queryFn: dnsSettings.read }).data?.value
  const ntp = useQuery({ queryKey: [ntpSettings.kind], queryFn: ntpSettings.read }).data?.value
  return { dns: dns?.listen_addresses ?? [], ntp: ntp?.serve_clients ? ntp.listen_addresses : [] }
}

/** Managed interfaces, LAN first. Those in the WAN zone are left out: the gateway hands out no addresses there. */
function useForm() {
  const { t } = useTranslation('dhcp')
  const declared = useLinks().links.filter(({ declared: row, zone }) => row && zone !== 'wan')
  const inside = declared.filter(({ zone }) => zone === 'lan')
  const others = declared.filter(({ zone }) => zone !== 'lan')
  const items = (links: typeof declared) => links.map(({ name, zone }) => ({ value: name, label: `${name} (${zone})` }))
  const fields: Fields<'dhcp.subnet'> = [
    {
      name: 'interface',
      type: 'select',
      choices: [
        { group: t('subnet.interface.inside'), items: items(inside) },
        { group: t('subnet.interface.others'), items: items(others) },
      ].filter((group) => group.items.length > 0),
    },
    { name: 'cidr', type: 'mono' },
    { name: 'range_start', type: 'mono' },
    { name: 'range_end', type: 'mono' },
    { name: 'active', type: 'switch' },
    { name: 'gateway', type: 'mono', section: 'clients' },
    { name: 'dns_servers', type: 'list' },
    { name: 'ntp_servers', type: 'list' },
    { name: 'domain_name', type: 'mono' },
    { name: 'lease_seconds', type: 'span' },
  ]
  const listening = useListening()
  const follow = (values: Values): Values => {
    const bound = declared.find(({ name }) => name === values.interface)?.addresses.map(({ text }) => text) ?? []
    const cidr = bound.map(networkOf).find(Boolean) ?? ''
    const own = bound.map((text) => text.split('/')[0] ?? '')
    const proposal = propose(String(values.cidr ?? ''), own)
    return {
      cidr,
      ...proposal,
      dns_servers: serverAt(proposal.gateway, own, listening.dns),
      ntp_servers: serverAt(proposal.gateway, own, listening.ntp),
    }
  }
  return { resource: dhcpSubnets, text: 'dhcp:subnet', list: paths.dhcpSubnets, fields, follow }
}

export function Create() {
  return <CreateDrawer {...useForm()} />
}

export function Edit() {
  return <EditDrawer {...useForm()} name={(row) => row.cidr} />
}
