import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import type { Tunnel } from '../../api/types'
import { CopyText } from '../../kit/page/CopyText'
import { Facts, Panel } from '../../kit/page/Page'
import { heardOn, liveOf, trafficOf } from './live'
import { LinkBadge, PeerBadge, Rates, Totals } from './marks'
import { devicesQuery, liveQuery } from './resources'
import classes from './Tunnels.module.css'
import { listOf } from './tunnel'

/** What others need to know about a tunnel, and its state. */
export function About({ tunnel }: { tunnel: Tunnel }) {
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
                ] as [string, ReactNode][])
              : ([
                  [t('tunnel.upstream'), <PeerBadge key="u" live={upstream} active={tunnel.active} />],
                  [t('tunnel.upstream_endpoint.label'), mono(tunnel.upstream_endpoint)],
                  [t('tunnel.upstream_allowed_ips.label'), list(tunnel.upstream_allowed_ips)],
                  [t('live.total'), <Totals key="t" live={upstream} />],
                ] as [string, ReactNode][])),
            [t('live.now'), <Rates key="r" traffic={trafficOf(heardOn(data).get(tunnel.name))} />],
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
