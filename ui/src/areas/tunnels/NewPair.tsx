import { Button } from '@mantine/core'
import { IconKey } from '@tabler/icons-react'
import { useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { type Answer, answer, http, type Intent, intentHeaders } from '../../api/client'
import type { Resource } from '../../api/resource'
import type { Tunnel, TunnelPeer } from '../../api/types'
import { confirm } from '../../kit/confirm'
import { usualIntent } from '../../kit/intent'
import { ownConnection } from '../../kit/own-connection'
import { objectionTo } from '../../kit/remove'
import { renew } from '../../kit/renew'
import { toastApplied } from '../../kit/toast'
import { peers, tunnels } from './resources'
import { randomKey } from './tunnel'

/** Gives a tunnel a new key pair, after a question. Whoever had the old public key needs the new one. */
export function NewTunnelPair({ tunnel }: { tunnel: Tunnel }) {
  const { t } = useTranslation('tunnels')
  const params = { path: { id: tunnel.id } }
  const make = (intent: Intent) =>
    answer(http.POST('/tunnel/interfaces/{id}/generate-keypair', { params, headers: intentHeaders(intent) }))
  return <NewPair resource={tunnels} row={tunnel} text={t(`pair.${tunnel.mode}Text`)} make={make} />
}

/** The same for a peer. */
export function NewPeerPair({ peer }: { peer: TunnelPeer }) {
  const { t } = useTranslation('tunnels')
  const params = { path: { id: peer.id } }
  const make = (intent: Intent) =>
    answer(http.POST('/peers/{id}/generate-keypair', { params, headers: intentHeaders(intent) }))
  return <NewPair resource={peers} row={peer} text={t('pair.peerText')} make={make} />
}

interface NewPairProps {
  resource: Pick<Resource<unknown>, 'kind'>
  row: { id: string; name: string }
  text: string
  make: (intent: Intent) => Promise<Answer<unknown>>
}

function NewPair({ resource: { kind }, row: { id, name }, text, make }: NewPairProps) {
  const { t } = useTranslation('tunnels')
  const queries = useQueryClient()
  const ask = async () => {
    // Any other key does to the connection of the console what the new one will do.
    const other = { kind, verb: 'update', id, body: { private_key: randomKey() } } as const
    const objection = await objectionTo([other], ownConnection)
    await confirm({
      title: t('pair.title', { name }),
      text: (
        <>
          {objection}
          <p>{text}</p>
        </>
      ),
      verb: t('pair.verb'),
      danger: true,
      act: async () => {
        const { applied } = await make(usualIntent(kind))
        toastApplied(t('pair.done', { name }), applied)
        await renew(queries, kind)
      },
    })
  }
  return (
    <Button
      size="compact-sm"
      variant="default"
      leftSection={<IconKey size={14} aria-hidden />}
      onClick={() => void ask()}
    >
      {t('pair.verb')}
    </Button>
  )
}
