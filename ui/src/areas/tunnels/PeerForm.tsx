import { Button } from '@mantine/core'
import { IconQrcode } from '@tabler/icons-react'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { peers } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { TunnelPeer } from '../../api/types'
import { ownConnection } from '../../kit/change/own-connection'
import type { Fields } from '../../kit/form/fields'
import { EditDrawer } from '../../kit/form/ResourceDrawers'
import { Notice } from '../../kit/state/Notice'
import { paths } from '../../paths'
import { PeerMenu } from './NewPair'
import classes from './Tunnels.module.css'
import { peerShape, randomKey } from './tunnel'
import { useTunnelId } from './useTunnel'

export const further: Fields<'tunnel.peer'> = [
  { name: 'keepalive', type: 'number', section: 'further' },
  { name: 'endpoint', type: 'mono' },
]

const stored: Fields<'tunnel.peer'> = [
  { name: 'name', type: 'text' },
  { name: 'allowed_ips', type: 'list', required: true },
  { name: 'active', type: 'switch' },
  { name: 'public_key', type: 'mono', required: true },
  ...further,
  { name: 'preshared_key', type: 'password', generate: randomKey, configured: 'preshared_key_configured' },
]

/** The form for a peer, with its deletion. */
export function Edit() {
  const id = useTunnelId()
  return (
    <EditDrawer
      resource={peers}
      text="tunnels:peer"
      list={paths.tunnel(id)}
      fields={stored}
      shape={peerShape(id)}
      name={(row) => row.name}
      guard={ownConnection}
      above={(row) => <Above peer={row} />}
    />
  )
}

/** Warnings about a peer, and more actions. */
function Above({ peer }: { peer: TunnelPeer }) {
  const { t } = useTranslation('tunnels')
  const canEdit = useCanEdit()
  return (
    <div className={classes.above}>
      {peer.warnings.map((warning) => (
        <Notice key={warning} tone="warn">
          {warning}
        </Notice>
      ))}
      {canEdit && (
        <div className={classes.buttons}>
          <Button
            component={Link}
            to={paths.peerConfig(peer.interface_id, peer.id)}
            size="compact-sm"
            variant="default"
            leftSection={<IconQrcode size={14} aria-hidden />}
          >
            {t('config.title')}
          </Button>
          <PeerMenu peer={peer} />
        </div>
      )}
    </div>
  )
}
