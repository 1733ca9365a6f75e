import type { Fields } from '../../kit/form/fields'
import { withPrefix } from './address-rows'

/** The fields of an address on any interface. */
export const addressFields: Fields<'network.ip-address'> = [
  { name: 'address', type: 'mono', split: withPrefix },
  { name: 'prefix', type: 'number' },
  { name: 'is_vip', type: 'switch' },
  { name: 'vip_priority', type: 'number', when: ({ is_vip }) => is_vip === true },
  { name: 'description', type: 'text' },
]

export const addressDefaults = { prefix: 24 }
