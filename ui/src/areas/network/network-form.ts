import type { ProposedNetwork } from '../../api/types'
import type { Values } from '../../kit/form/fields'
import { rangeOf } from './adoption'

/** Defaults that depend on other fields: the name of a VLAN, and the DHCP range. */
export function networkFollows({ role, vlan_id, address }: Values): Values {
  return { name: vlan_id ? `${String(role).slice(0, 11)}${vlan_id}` : '', ...rangeOf([String(address)]) }
}

/** The request for a form. */
export function networkOfForm(values: Values): ProposedNetwork {
  const vlan = values.on === 'vlan'
  const text = (name: string) => String(values[name] ?? '')
  const on = (name: string) => Boolean(values[name])
  return {
    name: text(vlan ? 'name' : 'port'),
    type: vlan ? 'vlan' : 'ethernet',
    parent: vlan ? text('parent') : '',
    vlan_id: vlan ? (values.vlan_id as number) : null,
    members: [],
    bond_mode: null,
    role: text('role'),
    addresses: [text('address')],
    gateway: '',
    dhcp: on('dhcp'),
    range_start: on('dhcp') ? text('range_start') : '',
    range_end: on('dhcp') ? text('range_end') : '',
    dns: on('dns'),
    ntp: on('ntp'),
    internet: on('internet'),
    lan: values.role !== 'lan' && !on('isolated'),
  }
}
