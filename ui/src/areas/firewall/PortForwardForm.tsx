import './texts'
import { natRules } from '../../api/resources'
import { ownConnection } from '../../kit/change/own-connection'
import type { Fields, Values } from '../../kit/form/fields'
import { CreateDrawer } from '../../kit/form/ResourceDrawers'
import { paths } from '../../paths'
import { forwardFollows, forwardShape } from './port-forward'

/** The gateway's management ports. */
const management = [22, 443]

const fields: Fields<'firewall.nat-rule'> = [
  { name: 'protocol', type: 'segments', options: ['tcp', 'udp', 'tcp+udp'] },
  { name: 'dst_port', type: 'number', required: true },
  { name: 'target_address', type: 'mono', required: true },
  { name: 'target_port', type: 'number' },
  { name: 'src_cidr', type: 'mono' },
  {
    name: 'takes_management_ports',
    type: 'switch',
    when: ({ dst_port }: Values) => management.includes(Number(dst_port)),
  },
  { name: 'name', type: 'text' },
]

/** The form for a port forward, with only the fields that it needs. The rule's own page has the others. */
export default function PortForwardForm() {
  return (
    <CreateDrawer
      resource={natRules}
      pieces={({ id, name }) => [{ kind: natRules.kind, id, name }]}
      text="firewall:forward"
      list={paths.nat}
      fields={fields}
      defaults={{ protocol: 'tcp' }}
      shape={forwardShape}
      follow={forwardFollows}
      guard={ownConnection}
    />
  )
}
