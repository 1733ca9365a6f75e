import '@mantine/spotlight/styles.layer.css'
import { useMantineColorScheme } from '@mantine/core'
import { Spotlight, type SpotlightActionGroupData, spotlight } from '@mantine/spotlight'
import {
  IconAddressBook,
  IconAt,
  IconBolt,
  IconBox,
  IconBuildingTunnel,
  IconCertificate,
  IconClock,
  IconDevices,
  IconHomeShield,
  IconKey,
  IconNetwork,
  IconPlugConnected,
  IconRadar2,
  IconSearch,
  IconServer2,
  IconShieldCheck,
  IconSignRight,
  IconUsers,
  IconWall,
  IconWorld,
  IconWorldUpload,
} from '@tabler/icons-react'
import { useQueries, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import {
  addresses,
  addressGroups,
  backends,
  certificates,
  dhcpReservations,
  dhcpSubnets,
  dnsRecords,
  dnsZones,
  domains,
  forwardProxyAcls,
  interfaces,
  ipAddresses,
  natRules,
  ntpPools,
  radiusClients,
  radiusUsers,
  routes,
  rules,
  serviceGroups,
  services,
  peers as tunnelPeers,
  tunnels,
  users,
  zones,
} from '../api/resources'
import { logOut, useCanEdit } from '../api/session'
import { reapply } from '../areas/components/reapply'
import { answerOf, fullName } from '../areas/dns/record'
import { tunnelsQuery } from '../areas/tunnels/resources'
import { optionalText } from '../i18n/i18n'
import { pathOfThing, paths } from '../paths'
import { navigation } from './navigation'

export const show = spotlight.open

/** Rows that can be found by name or address. */
const named = [
  { resource: domains, nav: 'domains', icon: IconWorld },
  { resource: backends, nav: 'backends', icon: IconServer2 },
  { resource: certificates, nav: 'certificates', icon: IconCertificate },
  { resource: rules, nav: 'rules', icon: IconShieldCheck },
  { resource: natRules, nav: 'nat', icon: IconShieldCheck },
  { resource: addresses, nav: 'objects', icon: IconBox },
  { resource: addressGroups, nav: 'objects', icon: IconBox },
  { resource: services, nav: 'firewallServices', icon: IconPlugConnected },
  { resource: serviceGroups, nav: 'firewallServices', icon: IconPlugConnected },
  { resource: zones, nav: 'zones', icon: IconHomeShield },
  { resource: interfaces, nav: 'interfaces', icon: IconNetwork },
  { resource: ipAddresses, nav: 'ipAddresses', icon: IconAt },
  { resource: routes, nav: 'routes', icon: IconSignRight },
  { resource: tunnels, nav: 'tunnels', icon: IconBuildingTunnel },
  { resource: dnsZones, nav: 'dns', icon: IconAddressBook },
  { resource: dhcpSubnets, nav: 'dhcp', icon: IconDevices },
  { resource: dhcpReservations, nav: 'dhcp', icon: IconDevices },
  { resource: forwardProxyAcls, nav: 'forwardProxy', icon: IconWorldUpload },
  { resource: radiusUsers, nav: 'radius', icon: IconKey },
  { resource: radiusClients, nav: 'radius', icon: IconKey },
] as const

/** Forms that can be opened from anywhere. */
const made = {
  domain: paths.siteNew,
  backend: paths.backendNew,
  rule: paths.ruleNew,
  portForward: paths.portForwardNew,
  natRule: paths.natRuleNew,
  network: paths.networkNew,
  interface: paths.interfaceNew,
  tunnel: paths.tunnelNew,
  dnsZone: paths.dnsZoneNew,
  subnet: paths.dhcpSubnetNew,
  reservation: paths.dhcpReservationNew,
  user: paths.userNew,
  token: paths.profileTokenNew,
}

interface Named {
  id: string
  name?: string
  address?: string
  destination?: string
  cidr?: string
  ip?: string
  mac?: string
  hostname?: string
  interface?: string
  comment?: string
  description?: string
  value?: string
  target_address?: string
  src_cidr?: string
  dst_cidr?: string
  port_start?: number | null
  /** Certificates only. */
  names?: string[]
  notes?: string
  servers?: { name: string; address: string }[]
}

/** Goes anywhere, finds any object by name, address or id, and runs actions: Ctrl+K. */
export default function Palette() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  const { setColorScheme } = useMantineColorScheme()
  const pools = useQuery({ queryKey: [ntpPools.kind], queryFn: ntpPools.list })
  const people = useQuery({ queryKey: [users.kind], queryFn: users.list })
  const zoneList = useQuery({ queryKey: [dnsZones.kind], queryFn: dnsZones.list })
  const records = useQuery({ queryKey: [dnsRecords.kind], queryFn: dnsRecords.list })
  const peers = useQuery({ queryKey: [tunnelPeers.kind], queryFn: tunnelPeers.list })
  const tunnelList = useQuery(tunnelsQuery)
  const zoneNames = new Map((zoneList.data ?? []).map(({ id, name }) => [id, name]))
  const lists = useQueries({
    queries: named.map(({ resource: { kind, list } }) => ({
      queryKey: [kind],
      queryFn: list as () => Promise<Named[]>,
    })),
  })
  const go = (to: string) => () => void navigate({ to })

  const groups: SpotlightActionGroupData[] = [
    {
      group: t('palette.goTo'),
      actions: [
        ...navigation
          .flatMap(({ area, items }) => items.map((item) => ({ ...item, area })))
          .filter(({ adminOnly }) => canEdit || !adminOnly),
        { name: 'wafAlerts', to: paths.wafAlerts, icon: IconWall, area: 'security' },
        { name: 'wafRules', to: paths.wafRules, icon: IconWall, area: 'security' },
        { name: 'idsAlerts', to: paths.idsAlerts, icon: IconRadar2, area: 'security' },
        { name: 'profile', to: paths.profile, icon: IconUsers, area: null },
      ].map(({ name, to, icon: Icon, area }) => ({
        id: to,
        label: t(`nav.${name}`),
        description: area ? t(`nav.${area}`) : undefined,
        keywords: optionalText(`palette.also.${name}`),
        onClick: go(to),
        leftSection: <Icon size={18} stroke={1.6} />,
      })),
    },
    {
      group: t('palette.things'),
      actions: [
        ...(pools.data ?? []).map(({ id, address, kind }) => ({
          id,
          label: address,
          description: `${t('nav.ntp')} · ${kind}`,
          keywords: [id],
          onClick: go(paths.ntpServer(id)),
          leftSection: <IconClock size={18} stroke={1.6} />,
        })),
        ...(people.data ?? []).map(({ id, email, name }) => ({
          id,
          label: email,
          description: name || t('nav.users'),
          keywords: [id],
          onClick: go(paths.user(id)),
          leftSection: <IconUsers size={18} stroke={1.6} />,
        })),
        ...(records.data ?? []).map((record) => ({
          id: record.id,
          label: fullName(record.name, zoneNames.get(record.zone_id) ?? ''),
          description: `${t('nav.dns')} · ${record.type} ${answerOf(record)}`,
          keywords: [record.id],
          onClick: go(paths.dnsRecord(record.zone_id, record.id)),
          leftSection: <IconAddressBook size={18} stroke={1.6} />,
        })),
        ...(peers.data ?? []).map((peer) => ({
          id: peer.id,
          label: peer.name,
          description: `${t('nav.tunnels')} · ${peer.allowed_ips}`,
          keywords: [peer.id, peer.public_key, peer.endpoint],
          onClick: go(paths.peer(peer.interface_id, peer.id)),
          leftSection: <IconBuildingTunnel size={18} stroke={1.6} />,
        })),
        ...named.flatMap(({ resource: { kind }, nav, icon: Icon }, index) =>
          (lists[index]?.data ?? []).map(
            ({ id, name, names, address, destination, comment, description, value, ...more }) => ({
              id,
              label: name ?? names?.join(', ') ?? address ?? destination ?? more.cidr ?? more.ip,
              description: [t(`nav.${nav}`), value ?? (comment || description), more.hostname, more.mac]
                .filter(Boolean)
                .join(' · '),
              keywords: [
                id,
                address,
                more.interface,
                more.target_address,
                more.src_cidr,
                more.dst_cidr,
                more.port_start,
                more.notes,
                ...(more.servers ?? []).flatMap((server) => [server.name, server.address]),
              ]
                .filter(Boolean)
                .map(String),
              onClick: go(pathOfThing({ kind, id }) ?? '/'),
              leftSection: <Icon size={18} stroke={1.6} />,
            }),
          ),
        ),
      ],
    },
    {
      group: t('palette.actions'),
      actions: [
        ...(canEdit
          ? [
              ...Object.entries(made).map(([name, to]) => ({
                id: name,
                label: t(`palette.new.${name}`),
                keywords: optionalText(`palette.also.${name}`),
                onClick: go(to),
              })),
              // A peer belongs to a tunnel, so there is one entry for each.
              ...(tunnelList.data ?? []).map(({ id, name }) => ({
                id: `peer ${id}`,
                label: t('palette.new.peer'),
                description: name,
                keywords: optionalText('palette.also.tunnel'),
                onClick: go(paths.peerNew(id)),
              })),
              {
                id: 'flush',
                label: t('palette.flush'),
                onClick: () => void import('../areas/dns/flush').then(({ askToFlush }) => askToFlush(queries)),
              },
              { id: 'reapply', label: t('bar.reapply'), onClick: () => void reapply() },
              { id: 'ban', label: t('palette.ban'), onClick: go(paths.idsBan) },
            ]
          : []),
        {
          id: 'light',
          label: `${t('top.scheme.label')}: ${t('top.scheme.light')}`,
          onClick: () => setColorScheme('light'),
        },
        {
          id: 'dark',
          label: `${t('top.scheme.label')}: ${t('top.scheme.dark')}`,
          onClick: () => setColorScheme('dark'),
        },
        { id: 'logOut', label: t('top.logOut'), onClick: () => void logOut() },
      ].map((action) => ({ ...action, leftSection: <IconBolt size={18} stroke={1.6} /> })),
    },
  ]

  return (
    <Spotlight
      actions={groups}
      shortcut={null}
      nothingFound={t('palette.nothing')}
      limit={40}
      attributes={{ content: { 'aria-label': t('top.search') } }}
      scrollable
      scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}
      maxHeight={420}
      searchProps={{
        leftSection: <IconSearch size={18} />,
        placeholder: t('palette.hint'),
        'aria-label': t('palette.hint'),
      }}
    />
  )
}
