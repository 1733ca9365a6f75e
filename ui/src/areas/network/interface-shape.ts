import type { Values } from '../../kit/form/fields'

export const types = ['ethernet', 'vlan', 'bridge', 'bond', 'wireguard'] as const
export const bondModes = [
  'active-backup',
  '802.3ad',
  'balance-rr',
  'balance-xor',
  'balance-tlb',
  'balance-alb',
  'broadcast',
]

/** Fields that only some types have are cleared for the others. */
export const interfaceShape = {
  read: (row: Values): Values => ({ ...row, parent: row.parent || null, bond_mode: row.bond_mode ?? 'active-backup' }),
  write: (values: Values): Values => {
    const { type } = values
    const made = type === 'bridge' || type === 'bond'
    return {
      ...values,
      parent: (type === 'vlan' && values.parent) || '',
      vlan_id: type === 'vlan' ? values.vlan_id : null,
      members: made ? values.members : [],
      bond_mode: type === 'bond' ? values.bond_mode : null,
    }
  },
}
