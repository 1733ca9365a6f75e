import { Button } from '@mantine/core'
import { IconKey, IconPencil } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useNavigate } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { Tunnel as TunnelRow } from '../../api/types'
import { paths } from '../../app/paths'
import { useCanEdit } from '../../app/session'
import { DetailDrawer } from '../../kit/DetailDrawer'
import { FaultNotice, Loaded } from '../../kit/Loaded'
import { Notice } from '../../kit/Notice'
import { ownConnection } from '../../kit/own-connection'
import { EditForm } from '../../kit/ResourceForm'
import { About } from './About'
import { FullTunnel } from './FullTunnel'
import { Peers } from './Peers'
import { liveQuery, peersQuery, tunnels, tunnelsQuery } from './resources'
import { useTunnelFields } from './TunnelForm'
import classes from './Tunnels.module.css'
import { tunnelShape } from './tunnel'
import { useNewPair } from './useNewPair'
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
            <FullTunnel tunnel={tunnel} />
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
  const canEdit = useCanEdit()
  const newPair = useNewPair()
  return (
    <div className={classes.head}>
      <h2>
        <Link to={paths.tunnels}>{t('tunnel.title')}</Link> / <span className="mono">{tunnel.name}</span>
      </h2>
      {canEdit && (
        <div className={classes.buttons}>
          <Button
            variant="default"
            size="compact-sm"
            leftSection={<IconKey size={14} aria-hidden />}
            onClick={() => newPair.ofTunnel(tunnel)}
          >
            {t('pair.verb')}
          </Button>
          <Button
            component={Link}
            to={paths.tunnelEdit(tunnel.id)}
            variant="default"
            size="compact-sm"
            leftSection={<IconPencil size={14} aria-hidden />}
          >
            {t('tunnel.change')}
          </Button>
        </div>
      )}
    </div>
  )
}

/** What the tunnel itself is, and its deletion. */
export function EditTunnel() {
  const { t } = useTranslation('tunnels')
  const navigate = useNavigate()
  const id = useTunnelId()
  const { data: peers = [] } = useQuery(peersQuery)
  const hasPeers = peers.some(({ interface_id }) => interface_id === id)
  return (
    <DetailDrawer title={t('tunnel.edit')} back={paths.tunnel(id)}>
      <EditForm
        resource={tunnels}
        id={id}
        text="tunnels:tunnel"
        fields={useTunnelFields()}
        shape={tunnelShape}
        guard={ownConnection}
        fixed={() => (hasPeers ? ['mode'] : [])}
        name={(row) => row.name}
        onDone={() => navigate({ to: paths.tunnel(id) })}
        onGone={() => navigate({ to: paths.tunnels })}
      />
    </DetailDrawer>
  )
}
