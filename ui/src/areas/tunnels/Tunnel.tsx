import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useNavigate } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { tunnels } from '../../api/resources'
import type { Tunnel as TunnelRow } from '../../api/types'
import { ownConnection } from '../../kit/change/own-connection'
import { EditDrawer } from '../../kit/form/ResourceDrawers'
import { RowHead } from '../../kit/page/RowHead'
import { FaultNotice, Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { paths } from '../../paths'
import { About } from './About'
import { Advice } from './Advice'
import { TunnelMenu } from './NewPair'
import { Peers } from './Peers'
import { liveQuery, peersQuery, tunnelsQuery } from './resources'
import { useTunnelFields } from './TunnelForm'
import { tunnelShape } from './tunnel'
import { useTunnel, useTunnelId } from './useTunnel'

export { Config } from './Config'
export { Edit } from './PeerForm'
export { Create } from './PeerWizard'

/** A tunnel with its peers, or with its upstream. */
export default function Tunnel() {
  const { t } = useTranslation('tunnels')
  const query = useQuery(tunnelsQuery)
  const live = useQuery(liveQuery)
  const tunnel = useTunnel()
  return (
    <Loaded query={query} height={240}>
      {() =>
        tunnel ? (
          <>
            <Head tunnel={tunnel} />
            {live.isError && <FaultNotice fault={live.error} />}
            <Advice tunnel={tunnel} />
            <About tunnel={tunnel} />
            {tunnel.mode === 'server' && <Peers tunnel={tunnel} />}
            <Outlet />
          </>
        ) : (
          <Notice tone="warn" title={t('tunnel.gone')} action={<Link to={paths.tunnels}>{t('tunnel.title')}</Link>} />
        )
      }
    </Loaded>
  )
}

function Head({ tunnel }: { tunnel: TunnelRow }) {
  const { t } = useTranslation('tunnels')
  return (
    <RowHead
      list={{ to: paths.tunnels, title: t('tunnel.title') }}
      name={tunnel.name}
      edit={{ to: paths.tunnelEdit(tunnel.id), title: t('tunnel.change') }}
      actions={<TunnelMenu tunnel={tunnel} />}
    />
  )
}

/** The form for the tunnel itself, with its deletion. */
export function EditTunnel() {
  const navigate = useNavigate()
  const id = useTunnelId()
  const { data: peers = [] } = useQuery(peersQuery)
  const hasPeers = peers.some(({ interface_id }) => interface_id === id)
  return (
    <EditDrawer
      of={id}
      list={paths.tunnel(id)}
      resource={tunnels}
      text="tunnels:tunnel"
      fields={useTunnelFields()}
      shape={tunnelShape}
      guard={ownConnection}
      fixed={() => (hasPeers ? ['mode'] : [])}
      name={(row) => row.name}
      onGone={() => navigate({ to: paths.tunnels })}
    />
  )
}
