import type { Rule } from '../../api/types'

type Reach = Pick<Rule, 'action' | 'enabled' | 'src_zone' | 'src_kind' | 'dst_zone'>

const outside = ['any', 'wan']
const inside = ['any', 'lan']

/** Whether a rule lets the whole internet reach the LAN. The gateway's insights call that wide open. */
export const opensInside = (rule: Partial<Reach>) =>
  rule.action === 'accept' &&
  rule.enabled === true &&
  outside.includes(rule.src_zone ?? '') &&
  rule.src_kind === 'any' &&
  inside.includes(rule.dst_zone ?? '')
