import { IconPlugConnected, IconPlugConnectedX } from '@tabler/icons-react'
import { useTranslation } from 'react-i18next'
import type { Client } from '../../api/types'
import { Badge } from '../../kit/state/StateBadge'
import { bytes } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import classes from './Clients.module.css'

/** Whether it was seen recently, and when. */
export function Presence({ client: { online, last_seen } }: { client: Client }) {
  const { t } = useTranslation('clients')
  return (
    <span className={classes.stack}>
      <Badge tone={online ? 'live' : 'off'} icon={online ? IconPlugConnected : IconPlugConnectedX}>
        {t(`client.states.${online ? 'online' : 'offline'}`)}
      </Badge>
      <small className="soft">
        <Time at={last_seen} />
      </small>
    </span>
  )
}

/** Its vendor, as far as the MAC address tells. */
export function Make({ client: { mac, vendor, random_mac, peer_id } }: { client: Client }) {
  const { t } = useTranslation('clients')
  if (peer_id) return t('client.peer')
  if (random_mac) return <span title={t('client.randomHelp')}>{t('client.random')}</span>
  return vendor || (mac ? t('client.noVendor') : '')
}

/** Bytes sent and received, if known. */
export function Traffic({ client: { sent_bytes: sent, received_bytes: received } }: { client: Client }) {
  if (sent === null || received === null) return <span className="soft">–</span>
  return (
    <span>
      ↑ {bytes(sent)} ↓ {bytes(received)}
    </span>
  )
}
