import { Button } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { peers } from '../../api/resources'
import type { Tunnel, TunnelPeer } from '../../api/types'
import i18n from '../../i18n/i18n'
import { ownConnection } from '../../kit/change/own-connection'
import type { Fields } from '../../kit/form/fields'
import { CreateForm } from '../../kit/form/ResourceForm'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { FaultNotice } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { Waiting } from '../../kit/state/Waiting'
import { paths } from '../../paths'
import { PeerConfig } from './Config'
import { further } from './PeerForm'
import { nextAddressQuery, peersQuery } from './resources'
import classes from './Tunnels.module.css'
import { peerShape, randomKey } from './tunnel'
import { useTunnel, useTunnelId } from './useTunnel'

const fresh: Fields<'tunnel.peer', 'key'> = [
  { name: 'name', type: 'text' },
  { name: 'allowed_ips', type: 'list', required: true },
  { name: 'key', type: 'choice', options: ['made', 'own'] },
  {
    name: 'public_key',
    type: 'mono',
    required: true,
    help: () => i18n.t('tunnels:peer.public_key.ofDevice'),
    when: ({ key }) => key === 'own',
  },
  ...further,
  { name: 'preshared_key', type: 'password', generate: randomKey },
]

/** A new peer in one dialog: its name, its address, and then what its device needs. */
export function Create() {
  const { t } = useTranslation('tunnels')
  const tunnel = useTunnel()
  const id = useTunnelId()
  const queries = useQueryClient()
  const [first, setMade] = useState<TunnelPeer | null>(null)
  // It may get a new key pair while it is shown.
  const { data: all } = useQuery(peersQuery)
  const made = first && (all?.find((peer) => peer.id === first.id) ?? first)
  const another = () => {
    queries.removeQueries(nextAddressQuery(id))
    setMade(null)
  }
  return (
    <DetailDrawer title={made ? made.name : t('peer.new')} back={paths.tunnel(id)}>
      {tunnel && !made && <NewPeer tunnel={tunnel} onMade={setMade} />}
      {tunnel && made && (
        <div className={classes.step}>
          <Notice tone="live">{t(made.has_private_key ? 'peer.made' : 'peer.madeOwn')}</Notice>
          <PeerConfig tunnel={tunnel} peer={made} />
          <div className={classes.buttons}>
            <Button component={Link} to={paths.tunnel(id)}>
              {t('peer.finish')}
            </Button>
            <Button variant="default" onClick={another}>
              {t('peer.another')}
            </Button>
          </div>
        </div>
      )}
    </DetailDrawer>
  )
}

function NewPeer({ tunnel, onMade }: { tunnel: Tunnel; onMade: (peer: TunnelPeer) => void }) {
  const next = useQuery(nextAddressQuery(tunnel.id))
  const made = useRef<TunnelPeer>(null)
  const resource: Pick<typeof peers, 'kind' | 'create' | 'past'> = {
    ...peers,
    create: async (body, intent) => {
      const answer = await peers.create(body, intent)
      made.current = answer.value
      return answer
    },
  }
  if (next.isPending) return <Waiting height={320} />
  const address = next.data?.address ?? ''
  return (
    <div className={classes.step}>
      {next.isError && <FaultNotice fault={next.error} />}
      <CreateForm
        resource={resource}
        text="tunnels:peer"
        fields={fresh}
        defaults={{ allowed_ips: address, key: 'made' }}
        shape={peerShape(tunnel.id)}
        guard={ownConnection}
        onDone={() => made.current && onMade(made.current)}
      />
    </div>
  )
}
