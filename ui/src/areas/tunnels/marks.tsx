import { IconPlugConnected, IconPlugConnectedX } from '@tabler/icons-react'
import { useTranslation } from 'react-i18next'
import type { Tunnel, TunnelDevice } from '../../api/types'
import { Sparkline } from '../../kit/chart/Sparkline'
import { Badge } from '../../kit/state/StateBadge'
import { bytes } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import { linkOf, linkTones, type PeerLive, slots, type Traffic } from './live'
import classes from './Tunnels.module.css'

/** The state of a tunnel's interface, with its error or node. */
export function LinkBadge({ tunnel, devices }: { tunnel: Tunnel; devices: readonly TunnelDevice[] | undefined }) {
  const { t } = useTranslation('tunnels')
  const { state, device } = linkOf(tunnel, devices)
  return (
    <span className={classes.stack}>
      <Badge tone={linkTones[state]}>{t(`link.${state}`)}</Badge>
      {device?.error && <small>{device.error}</small>}
      {state === 'elsewhere' && <small className="soft">{t('link.elsewhereHelp')}</small>}
      {state === 'up' && device?.kind && (
        <small className="soft" title={t(`link.kindHelp.${device.kind}`)}>
          {t(`link.kinds.${device.kind}`)}
        </small>
      )}
    </span>
  )
}

/** Whether a peer was seen recently, and when. */
export function PeerBadge({ live, active = true }: { live: PeerLive | undefined; active?: boolean }) {
  const { t } = useTranslation('tunnels')
  if (!active) return <Badge tone="off">{t('common:off')}</Badge>
  const online = live?.online ?? false
  return (
    <span className={classes.stack}>
      <Badge tone={online ? 'live' : 'off'} icon={online ? IconPlugConnected : IconPlugConnectedX}>
        {t(online ? 'live.online' : 'live.offline')}
      </Badge>
      <small className="soft">
        {t('live.handshake')} <Time at={live?.last_handshake} />
      </small>
    </span>
  )
}

const arrows = (rx: string, tx: string) => `↓ ${rx} ↑ ${tx}`

/** The current rates, and those of the last minute. */
export function Rates({ traffic }: { traffic: Traffic | undefined }) {
  if (!traffic?.history.length) return <span className="soft">–</span>
  return (
    <span className={classes.rates}>
      <span>{arrows(`${bytes(traffic.rx_rate)}/s`, `${bytes(traffic.tx_rate)}/s`)}</span>
      <Sparkline values={traffic.history} slots={slots} />
    </span>
  )
}

/** Bytes received and sent since the interface was created. */
export function Totals({ live }: { live: PeerLive | undefined }) {
  return live ? (
    <span className={classes.totals}>{arrows(bytes(live.rx), bytes(live.tx))}</span>
  ) : (
    <span className="soft">–</span>
  )
}
