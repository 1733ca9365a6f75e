import type { FieldSpec } from '../../kit/form/fields'
import { withPrefix } from './address-rows'

/** What an address has, whichever interface it is on. */
export const addressFields: FieldSpec[] = [
  { name: 'address', type: 'mono', required: true, split: withPrefix },
  { name: 'prefix', type: 'number', min: 1, max: 128, required: true },
  { name: 'is_vip', type: 'switch' },
  { name: 'vip_priority', type: 'number', min: 1, max: 254, when: ({ is_vip }) => is_vip === true },
  { name: 'description', type: 'text' },
]

export const addressDefaults = { address: '', prefix: 24, is_vip: false, vip_priority: 100, description: '' }
