import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { tunnels } from '../../api/resources'
import { ownConnection } from '../../kit/change/own-connection'
import type { Fields, Values } from '../../kit/form/fields'
import { CreateForm } from '../../kit/form/ResourceForm'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { Loaded } from '../../kit/state/Loaded'
import { paths } from '../../paths'
import type { Conf } from './conf'
import { Paste } from './Paste'
import { tunnelsQuery } from './resources'
import { listOf, propose, tunnelShape } from './tunnel'

const ofMode = (mode: string) => (values: Values) => values.mode === mode

/** The fields of a tunnel: as a server, or as the client of an upstream. */
export function useTunnelFields(): Fields<'tunnel.interface'> {
  const { t } = useTranslation('tunnels')
  return [
    { name: 'mode', type: 'choice' },
    { name: 'name', type: 'mono' },
    { name: 'address_cidr', type: 'list', help: ({ mode }) => t(`tunnel.address_cidr.helps.${mode}`) },
    {
      name: 'listen_port',
      type: 'number',
      help: ({ mode }) => t(`tunnel.listen_port.helps.${mode}`),
    },
    { name: 'active', type: 'switch' },
    { name: 'endpoint_host', type: 'mono', section: 'peers', when: ofMode('server') },
    { name: 'client_routes', type: 'list', when: ofMode('server') },
    { name: 'dns', type: 'list', when: ofMode('server') },
    { name: 'upstream_endpoint', type: 'mono', required: true, section: 'upstream', when: ofMode('client') },
    { name: 'upstream_public_key', type: 'mono', required: true, when: ofMode('client') },
    {
      name: 'upstream_preshared_key',
      type: 'password',
      configured: 'upstream_preshared_key_configured',
      when: ofMode('client'),
    },
    { name: 'upstream_allowed_ips', type: 'list', required: true, when: ofMode('client') },
    { name: 'upstream_keepalive', type: 'number', when: ofMode('client') },
    { name: 'mtu', type: 'number', section: 'further' },
  ]
}

/** After saving, a new tunnel opens: its peers come next. */
export function Create() {
  const { t } = useTranslation('tunnels')
  const [conf, setConf] = useState<Conf | null>(null)
  const query = useQuery(tunnelsQuery)
  return (
    <DetailDrawer title={t('tunnel.new')} back={paths.tunnels}>
      <Loaded query={query} height={320}>
        {(rows) => (
          <>
            <Paste onRead={setConf} />
            <NewTunnel key={JSON.stringify(conf)} proposal={propose(rows)} conf={conf} />
          </>
        )}
      </Loaded>
    </DetailDrawer>
  )
}

function NewTunnel({ proposal, conf }: { proposal: Values; conf: Conf | null }) {
  const navigate = useNavigate()
  const made = useRef('')
  const fields: Fields<'tunnel.interface'> = [...useTunnelFields(), { name: 'private_key', type: 'password' }]
  const resource: Pick<typeof tunnels, 'kind' | 'create' | 'past'> = {
    ...tunnels,
    create: async (body, intent) => {
      const answer = await tunnels.create(body, intent)
      made.current = answer.value.id
      return answer
    },
  }
  // A client's address comes from the provider, and its port does not matter.
  const follow = ({ mode }: Values): Values =>
    mode === 'client'
      ? { address_cidr: [], listen_port: 0 }
      : { address_cidr: listOf(proposal.address_cidr), listen_port: proposal.listen_port }
  return (
    <CreateForm
      resource={resource}
      text="tunnels:tunnel"
      fields={fields}
      defaults={{ ...proposal, ...conf?.values }}
      shape={{ ...tunnelShape, write: (values) => tunnelShape.write({ ...conf?.secrets, ...values }) }}
      follow={conf ? undefined : follow}
      guard={ownConnection}
      onDone={() => navigate({ to: paths.tunnel(made.current) })}
    />
  )
}
