import { useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { answer, http } from '../../api/client'
import type { Tunnel, TunnelPeer } from '../../api/types'
import { confirm } from '../../kit/confirm'
import { toastApplied } from '../../kit/toast'
import { peers, tunnels } from './resources'

/** Asks, and gives a tunnel or a peer a new key pair. Whoever had the old public key needs the new one. */
export function useNewPair() {
  const { t } = useTranslation('tunnels')
  const queries = useQueryClient()
  const ask = (kind: Tunnel['mode'] | 'peer', name: string, make: () => ReturnType<typeof ofTunnelById>) =>
    confirm({
      title: t('pair.title', { name }),
      text: t(`pair.${kind}Text`),
      verb: t('pair.verb'),
      danger: true,
      act: async () => {
        const { applied } = await make()
        toastApplied(t('pair.done', { name }), applied)
        await queries.invalidateQueries({ queryKey: [tunnels.kind] })
        await queries.invalidateQueries({ queryKey: [peers.kind] })
      },
    })
  return {
    ofTunnel: ({ id, name, mode }: Tunnel) => void ask(mode, name, () => ofTunnelById(id)),
    ofPeer: ({ id, name }: TunnelPeer) => void ask('peer', name, () => ofPeerById(id)),
  }
}

const ofTunnelById = (id: string) =>
  answer(http.POST('/tunnel/interfaces/{id}/generate-keypair', { params: { path: { id } } }))
const ofPeerById = (id: string) => answer(http.POST('/peers/{id}/generate-keypair', { params: { path: { id } } }))
