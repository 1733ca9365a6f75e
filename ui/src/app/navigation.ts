import {
  IconAddressBook,
  IconApi,
  IconArchive,
  IconArrowsExchange,
  IconArrowsSplit2,
  IconAt,
  IconBell,
  IconBox,
  IconBuildingTunnel,
  IconCalendarRepeat,
  IconCertificate,
  IconChartLine,
  IconClipboardList,
  IconClock,
  IconDeviceLaptop,
  IconDevices,
  IconFileCode,
  IconFileDiff,
  IconFileText,
  IconHistory,
  IconHomeShield,
  IconKey,
  IconLayoutDashboard,
  IconLicense,
  IconListSearch,
  IconLogin2,
  IconNetwork,
  IconPencil,
  IconPlugConnected,
  type IconProps,
  IconRadar2,
  IconRefreshDot,
  IconRoute,
  IconServer2,
  IconSettings,
  IconShieldCheck,
  IconSignRight,
  IconStethoscope,
  IconTopologyRing2,
  IconUsers,
  IconWall,
  IconWorld,
  IconWorldUpload,
} from '@tabler/icons-react'
import type { ComponentType } from 'react'
import { paths } from '../paths'

interface NavItem {
  /** The text's key: nav.<name>. */
  name: string
  to: string
  icon: ComponentType<IconProps>
  /** The page is for admins only. */
  adminOnly?: boolean
}

/** The areas in the words of the trade. Lists only what is built. */
export const navigation: { area: string | null; items: NavItem[] }[] = [
  { area: null, items: [{ name: 'overview', to: paths.overview, icon: IconLayoutDashboard }] },
  {
    area: 'proxy',
    items: [
      { name: 'domains', to: paths.domains, icon: IconWorld },
      { name: 'backends', to: paths.backends, icon: IconServer2 },
      { name: 'routing', to: paths.routing, icon: IconArrowsSplit2 },
      { name: 'certificates', to: paths.certificates, icon: IconCertificate },
      { name: 'statistics', to: paths.proxyStatistics, icon: IconChartLine },
    ],
  },
  {
    area: 'firewall',
    items: [
      { name: 'rules', to: paths.rules, icon: IconShieldCheck },
      { name: 'nat', to: paths.nat, icon: IconArrowsExchange },
      { name: 'objects', to: paths.addresses, icon: IconBox },
      { name: 'firewallServices', to: paths.services, icon: IconPlugConnected },
      { name: 'zones', to: paths.zones, icon: IconHomeShield },
      { name: 'firewallLog', to: paths.firewallLog, icon: IconListSearch },
      { name: 'explain', to: paths.explain, icon: IconRoute },
    ],
  },
  {
    area: 'network',
    items: [
      { name: 'interfaces', to: paths.interfaces, icon: IconNetwork },
      { name: 'ipAddresses', to: paths.ipAddresses, icon: IconAt },
      { name: 'routes', to: paths.routes, icon: IconSignRight },
      { name: 'clients', to: paths.clients, icon: IconDeviceLaptop },
    ],
  },
  { area: 'vpn', items: [{ name: 'tunnels', to: paths.tunnels, icon: IconBuildingTunnel }] },
  {
    area: 'services',
    items: [
      { name: 'dns', to: paths.dns, icon: IconAddressBook },
      { name: 'dhcp', to: paths.dhcp, icon: IconDevices },
      { name: 'ntp', to: paths.ntp, icon: IconClock },
      { name: 'forwardProxy', to: paths.forwardProxy, icon: IconWorldUpload },
      { name: 'radius', to: paths.radius, icon: IconKey },
    ],
  },
  {
    area: 'security',
    items: [
      { name: 'waf', to: paths.waf, icon: IconWall },
      { name: 'ids', to: paths.ids, icon: IconRadar2 },
    ],
  },
  {
    area: 'operations',
    items: [
      { name: 'alerts', to: paths.alerts, icon: IconBell },
      { name: 'backups', to: paths.backups, icon: IconArchive },
      { name: 'logs', to: paths.logs, icon: IconFileText },
      { name: 'diagnostics', to: paths.diagnostics, icon: IconStethoscope },
      { name: 'jobs', to: paths.jobs, icon: IconCalendarRepeat },
      { name: 'configuration', to: paths.configuration, icon: IconFileCode },
      { name: 'draft', to: paths.draft, icon: IconPencil, adminOnly: true },
      { name: 'history', to: paths.history, icon: IconHistory },
      { name: 'audit', to: paths.audit, icon: IconClipboardList },
    ],
  },
  {
    area: 'system',
    items: [
      { name: 'components', to: paths.components, icon: IconFileDiff },
      { name: 'settings', to: paths.settings, icon: IconSettings },
      { name: 'users', to: paths.users, icon: IconUsers },
      { name: 'sso', to: paths.sso, icon: IconLogin2, adminOnly: true },
      { name: 'cluster', to: paths.cluster, icon: IconTopologyRing2 },
      { name: 'license', to: paths.license, icon: IconLicense },
      { name: 'updates', to: paths.updates, icon: IconRefreshDot },
      { name: 'reference', to: paths.reference, icon: IconApi },
    ],
  },
]
