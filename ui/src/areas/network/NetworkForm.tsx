import './texts'
import { interfaces } from '../../api/resources'
import { ownConnection } from '../../kit/change/own-connection'
import type { FieldSpec, Values } from '../../kit/form/fields'
import { CreateDrawer } from '../../kit/form/ResourceDrawers'
import { paths } from '../../paths'
import { setUp } from './adoption'
import { networkFollows, networkOfForm } from './network-form'
import { useLinks, useUnsupported, useZoneNames } from './useLinks'

const defaults = {
  on: 'vlan',
  parent: null,
  vlan_id: null,
  port: null,
  role: 'guest',
  name: '',
  address: '',
  dhcp: true,
  range_start: '',
  range_end: '',
  dns: true,
  ntp: true,
  internet: true,
  isolated: true,
}

const isVlan = ({ on }: Values) => on === 'vlan'
const leases = ({ dhcp }: Values) => Boolean(dhcp)

/**
 * The form for a new network: its interface, zone and address, and the gateway's services there. All of it is stored,
 * or nothing.
 */
export default function NetworkForm() {
  const { links } = useLinks()
  const zones = useZoneNames()
  const unsupported = useUnsupported()
  const carriers = links.filter(({ type }) => type !== 'vlan' && type !== 'wireguard').map(({ name }) => name)
  const free = links.filter(({ addresses, zone, declared }) => addresses.length === 0 && (!declared || zone !== 'wan'))
  const fields: FieldSpec<keyof typeof defaults, string>[] = [
    {
      name: 'on',
      type: 'segments',
      options: ['vlan', 'port'],
      help: (values) => (isVlan(values) ? unsupported.vlan : undefined),
    },
    { name: 'parent', type: 'select', choices: carriers, required: true, when: isVlan },
    { name: 'vlan_id', type: 'number', min: 1, max: 4094, required: true, when: isVlan },
    {
      name: 'port',
      type: 'select',
      choices: free.map(({ name }) => name),
      required: true,
      when: (values) => !isVlan(values),
    },
    {
      name: 'role',
      type: 'suggest',
      choices: zones.filter((zone) => zone !== 'wan'),
      required: true,
      covers: ['networks.0.role'],
    },
    { name: 'name', type: 'mono', required: true, when: isVlan, covers: ['networks.0.name'] },
    { name: 'address', type: 'mono', required: true, covers: ['networks.0.addresses', 'networks', 'prefix', 'cidr'] },
    { name: 'dhcp', type: 'switch', section: 'services' },
    { name: 'range_start', type: 'mono', required: true, when: leases },
    { name: 'range_end', type: 'mono', required: true, when: leases },
    { name: 'dns', type: 'switch' },
    { name: 'ntp', type: 'switch' },
    { name: 'internet', type: 'switch', section: 'access' },
    { name: 'isolated', type: 'switch', when: ({ role }) => role !== 'lan' },
  ]
  const network = (values: Values) => [networkOfForm(values)]
  return (
    <CreateDrawer
      resource={{
        kind: interfaces.kind,
        past: interfaces.past,
        create: (body, { reason, within } = { reason: '', within: 0 }) =>
          setUp(network(body as Values), {}, { reason, confirm_within: within }),
      }}
      operations={async (values) => (await setUp(network(values), {}, { preview: true })).value.operations}
      pieces={({ changes }) => changes}
      text="network:network"
      list={paths.interfaces}
      fields={fields}
      defaults={defaults}
      follow={networkFollows}
      guard={ownConnection}
    />
  )
}
