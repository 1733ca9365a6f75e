import type { Rule } from '../../api/types'

type Reach = Pick<Rule, 'action' | 'enabled' | 'src_zone' | 'src_kind' | 'dst_zone' | 'dst_kind'>

const outside = ['any', 'wan']
const inside = ['any', 'lan']

/** Whether a rule lets every address of the internet reach every address inside. */
export const opensInside = (rule: Partial<Reach>) =>
  rule.action === 'accept' &&
  rule.enabled === true &&
  outside.includes(rule.src_zone ?? '') &&
  rule.src_kind === 'any' &&
  inside.includes(rule.dst_zone ?? '') &&
  rule.dst_kind === 'any'
