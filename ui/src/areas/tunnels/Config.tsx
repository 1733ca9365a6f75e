import { Button } from '@mantine/core'
import { IconDownload } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { useCanEdit } from '../../api/session'
import type { Tunnel, TunnelPeer } from '../../api/types'
import { CopyButton, CopyText } from '../../kit/page/CopyText'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { FaultNotice, Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { Waiting } from '../../kit/state/Waiting'
import { paths } from '../../paths'
import { Advice } from './Advice'
import { NewPeerPair } from './NewPair'
import { configQuery, peersQuery, qrQuery } from './resources'
import classes from './Tunnels.module.css'
import { useTunnel, useTunnelId } from './useTunnel'

/** Shows the configuration of the peer in the address bar again. */
export function Config() {
  const { t } = useTranslation('tunnels')
  const { id } = useParams({ strict: false }) as { id: string }
  const tunnel = useTunnel()
  const query = useQuery(peersQuery)
  const peer = query.data?.find((one) => one.id === id)
  return (
    <DetailDrawer title={peer?.name ?? t('config.title')} back={paths.tunnel(useTunnelId())}>
      <Loaded query={query} height={320}>
        {() =>
          tunnel && peer ? (
            <div className={classes.step}>
              <PeerConfig tunnel={tunnel} peer={peer} />
            </div>
          ) : (
            <Notice tone="warn">{t('peer.gone')}</Notice>
          )
        }
      </Loaded>
    </DetailDrawer>
  )
}

/** What a peer's device needs: the QR code, the file, the text. */
export function PeerConfig({ tunnel, peer }: { tunnel: Tunnel; peer: TunnelPeer }) {
  const { t } = useTranslation('tunnels')
  const canEdit = useCanEdit()
  if (!canEdit) return <Notice tone="off">{t('config.adminsOnly')}</Notice>
  return (
    <>
      {peer.has_private_key ? <Known peer={peer} /> : <Unknown tunnel={tunnel} peer={peer} />}
      <Advice tunnel={tunnel} />
    </>
  )
}

function Known({ peer: { id, name } }: { peer: TunnelPeer }) {
  const { t } = useTranslation('tunnels')
  const text = useQuery(configQuery(id))
  const qr = useQuery(qrQuery(id))
  if (text.isError) return <FaultNotice fault={text.error} />
  return (
    <>
      {qr.data && <img className={classes.qr} src={qr.data} alt={t('config.qr', { name })} />}
      {qr.isError ? <FaultNotice fault={qr.error} /> : <p className="soft">{t('config.scan')}</p>}
      {qr.isPending && <Waiting height={320} />}
      <div className={classes.buttons}>
        <Button
          component="a"
          href={`/api/v1/peers/${encodeURIComponent(id)}/config`}
          download
          size="compact-sm"
          variant="default"
          leftSection={<IconDownload size={14} aria-hidden />}
        >
          {t('config.download')}
        </Button>
        {text.data && <CopyButton text={text.data} label={t('config.copy')} />}
      </div>
      {text.data && (
        <details>
          <summary>{t('config.show')}</summary>
          <pre className={`mono ${classes.text}`}>{text.data}</pre>
        </details>
      )}
      <p className="soft">{t('config.secret')}</p>
    </>
  )
}

/** Why there is no configuration, what the device needs instead, and how to get one. */
function Unknown({ tunnel, peer }: { tunnel: Tunnel; peer: TunnelPeer }) {
  const { t } = useTranslation('tunnels')
  return (
    <>
      <Notice tone="off" title={t('config.unknownTitle')} action={<NewPeerPair peer={peer} />}>
        {t('config.unknown')}
      </Notice>
      <p>{t('config.needs', { port: tunnel.listen_port })}</p>
      <CopyText text={tunnel.public_key} label={t('tunnel.public_key')} />
    </>
  )
}
