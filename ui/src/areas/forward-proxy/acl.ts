import type { ForwardProxyAcl } from '../../api/types'

export const aclTypes = [
  'src',
  'dst',
  'dstdomain',
  'dstdom_regex',
  'url_regex',
  'port',
  'method',
  'time',
] as const satisfies ForwardProxyAcl['type'][]

export const aclActions = ['allow', 'deny'] as const satisfies ForwardProxyAcl['action'][]
