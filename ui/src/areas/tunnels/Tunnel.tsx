import { Button } from '@mantine/core'
import { IconKey, IconPencil } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useNavigate } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { Tunnel as TunnelRow } from '../../api/types'
import { paths } from '../../app/paths'
import { useCanEdit } from '../../app/session'
import { CopyText } from '../../kit/CopyText'
import { DetailDrawer } from '../../kit/DetailDrawer'
import { FaultNotice, Loaded } from '../../kit/Loaded'
import { Notice } from '../../kit/Notice'
import { ownConnection } from '../../kit/own-connection'
import { Facts, Panel } from '../../kit/Page'
import { EditForm } from '../../kit/ResourceForm'
import { FullTunnel } from './FullTunnel'
import { liveOf, trafficOf } from './live'
import { LinkBadge, PeerBadge, Rates, Totals } from './marks'
import { Peers } from './Peers'
import { devicesQuery, liveQuery, peersQuery, tunnels, tunnelsQuery } from './resources'
import { useTunnelFields } from './TunnelForm'
import classes from './Tunnels.module.css'
import { listOf, tunnelShape } from './tunnel'
import { useNewPair } from './useNewPair'
import { useTunnel, useTunnelId } from './useTunnel'

export { Config } from './Config'
export { Create, Edit } from './PeerForm'

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

/** What others need to know of a tunnel, and how it is. */
function About({ tunnel }: { tunnel: TunnelRow }) {
  const { t } = useTranslation('tunnels')
  const { data: devices } = useQuery(devicesQuery)
  const { data } = useQuery(liveQuery)
  const upstream = liveOf(data, tunnel, tunnel.upstream_public_key)
  const mono = (text: string) => <span className="mono">{text || '–'}</span>
  const list = (text: string) => mono(listOf(text).join(', '))
  return (
    <Panel>
      <div className={classes.about}>
        <Facts
          facts={[
            [t('tunnel.state'), <LinkBadge key="s" tunnel={tunnel} devices={devices} />],
            [t('tunnel.modeWord'), t(`tunnel.modes.${tunnel.mode}`)],
            [t('tunnel.address_cidr.label'), list(tunnel.address_cidr)],
            [t('tunnel.listen_port.short'), tunnel.listen_port || t('tunnel.anyPort')],
            ...(tunnel.mode === 'server'
              ? ([
                  [t('tunnel.dialled'), tunnel.endpoint_host ? mono(tunnel.endpoint_host) : t('tunnel.ownName')],
                  [t('tunnel.client_routes.label'), list(tunnel.client_routes)],
                  [t('tunnel.dns.label'), list(tunnel.dns)],
                ] as [string, React.ReactNode][])
              : ([
                  [t('tunnel.upstream'), <PeerBadge key="u" live={upstream} active={tunnel.active} />],
                  [t('tunnel.upstream_endpoint.label'), mono(tunnel.upstream_endpoint)],
                  [t('tunnel.upstream_allowed_ips.label'), list(tunnel.upstream_allowed_ips)],
                  [t('live.total'), <Totals key="t" live={upstream} />],
                ] as [string, React.ReactNode][])),
            [t('live.now'), <Rates key="r" traffic={trafficOf(data, tunnel)} />],
          ]}
        />
        <div>
          <small className="soft">{t('tunnel.public_key')}</small>
          <CopyText text={tunnel.public_key} label={t('tunnel.public_key')} />
        </div>
      </div>
    </Panel>
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
