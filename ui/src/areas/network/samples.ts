import type { Adoptable, IpAddress, LiveLink, NetworkInterface } from '../../api/types'

// Sample data for the tests of this area.

const dates = { created_at: '2026-01-01T00:00:00Z', updated_at: '2026-01-01T00:00:00Z' }

export const declare = (name: string, part: Partial<NetworkInterface> = {}): NetworkInterface => ({
  id: `id of ${name}`,
  name,
  type: 'ethernet',
  role: 'lan',
  parent: '',
  vlan_id: null,
  members: [],
  mtu: null,
  bond_mode: null,
  description: '',
  active: true,
  ...dates,
  ...part,
})

export const bind = (link: string, address: string, prefix: number, part: Partial<IpAddress> = {}): IpAddress => ({
  id: `id of ${address}`,
  interface_id: `id of ${link}`,
  address,
  prefix,
  is_vip: false,
  vip_priority: 100,
  description: '',
  ...dates,
  ...part,
})

export const plug = (ifname: string, part: Partial<LiveLink> = {}): LiveLink => ({
  ifindex: 2,
  ifname,
  flags: ['UP', 'LOWER_UP'],
  mtu: 1500,
  link_type: 'ether',
  address: '02:00:00:00:00:01',
  addr_info: [],
  rx_bytes: 0,
  tx_bytes: 0,
  rx_packets: 0,
  tx_packets: 0,
  rx_drop: 0,
  tx_drop: 0,
  ...part,
})

export const live = (local: string, prefixlen: number, scope = 'global') => ({
  family: local.includes(':') ? ('inet6' as const) : ('inet' as const),
  local,
  prefixlen,
  scope,
})

export const find = (name: string, part: Partial<Adoptable> = {}): Adoptable => ({
  name,
  kind: 'device',
  mac: '02:00:00:00:00:01',
  up: true,
  carrier: true,
  mtu: 1500,
  addresses: [],
  type: 'ethernet',
  parent: '',
  vlan_id: null,
  members: [],
  bond_mode: null,
  suggested_role: 'lan',
  ...part,
})
