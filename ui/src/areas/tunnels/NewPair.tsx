import { Button } from '@mantine/core'
import { IconKey } from '@tabler/icons-react'
import { useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { type Answer, answer, http, type Intent, intentHeaders } from '../../api/client'
import type { Resource } from '../../api/resource'
import { peers, tunnels } from '../../api/resources'
import type { Tunnel, TunnelPeer } from '../../api/types'
import { confirm } from '../../kit/change/confirm'
import { usualIntent } from '../../kit/change/intent'
import { ownConnection } from '../../kit/change/own-connection'
import { objectionTo } from '../../kit/change/remove'
import { renew } from '../../kit/change/renew'
import { RowMenu } from '../../kit/list/RowMenu'
import { toastApplied } from '../../kit/state/toast'
import { randomKey } from './tunnel'

/** Generates a new key pair for a tunnel, after a question. Clients with the old public key need the new one. */
function useTunnelPair(tunnel: Tunnel) {
  const { t } = useTranslation('tunnels')
  const params = { path: { id: tunnel.id } }
  const make = (intent: Intent) =>
    answer(http.POST('/tunnel/interfaces/{id}/generate-keypair', { params, headers: intentHeaders(intent) }))
  return useNewPair({ resource: tunnels, row: tunnel, text: t(`pair.${tunnel.mode}Text`), make })
}

/** The same for a peer. */
function usePeerPair(peer: TunnelPeer) {
  const { t } = useTranslation('tunnels')
  const params = { path: { id: peer.id } }
  const make = (intent: Intent) =>
    answer(http.POST('/peers/{id}/generate-keypair', { params, headers: intentHeaders(intent) }))
  return useNewPair({ resource: peers, row: peer, text: t('pair.peerText'), make })
}

interface NewPair {
  resource: Pick<Resource<unknown>, 'kind'>
  row: { id: string; name: string }
  text: string
  make: (intent: Intent) => Promise<Answer<unknown>>
}

function useNewPair({ resource: { kind }, row: { id, name }, text, make }: NewPair) {
  const { t } = useTranslation('tunnels')
  const queries = useQueryClient()
  return async () => {
    // Any other key affects the console's connection as the new one will.
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
}

export function TunnelMenu({ tunnel }: { tunnel: Tunnel }) {
  return <PairMenu name={tunnel.name} ask={useTunnelPair(tunnel)} />
}

export function PeerMenu({ peer }: { peer: TunnelPeer }) {
  return <PairMenu name={peer.name} ask={usePeerPair(peer)} />
}

function PairMenu({ name, ask }: { name: string; ask: () => Promise<void> }) {
  const { t } = useTranslation('tunnels')
  return (
    <RowMenu
      name={name}
      items={() => [{ label: t('pair.verb'), icon: IconKey, danger: true, act: () => void ask() }]}
    />
  )
}

/** Generates a key pair for a peer whose configuration needs one. */
export function NewPeerPair({ peer }: { peer: TunnelPeer }) {
  const { t } = useTranslation('tunnels')
  const ask = usePeerPair(peer)
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
