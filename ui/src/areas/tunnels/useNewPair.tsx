import { useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { answer, http } from '../../api/client'
import type { Resource } from '../../api/resource'
import type { Tunnel, TunnelPeer } from '../../api/types'
import { confirm } from '../../kit/confirm'
import { ownConnection } from '../../kit/own-connection'
import { objectionTo } from '../../kit/remove'
import { toastApplied } from '../../kit/toast'
import { peers, tunnels } from './resources'
import { randomKey } from './tunnel'

/** Asks, and gives a tunnel or a peer a new key pair. Whoever had the old public key needs the new one. */
export function useNewPair() {
  const { t } = useTranslation('tunnels')
  const queries = useQueryClient()
  const ask = async (
    { kind }: Pick<Resource<unknown>, 'kind'>,
    { id, name }: Tunnel | TunnelPeer,
    text: string,
    make: () => ReturnType<typeof ofTunnelById>,
  ) => {
    // Any other key does to the connection of the console what the new one will do.
    const other = { kind, verb: 'update', id, body: { private_key: randomKey() } } as const
    const objection = await objectionTo([other], ownConnection)
    return confirm({
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
        const { applied } = await make()
        toastApplied(t('pair.done', { name }), applied)
        await queries.invalidateQueries({ queryKey: [tunnels.kind] })
        await queries.invalidateQueries({ queryKey: [peers.kind] })
      },
    })
  }
  return {
    ofTunnel: (row: Tunnel) => void ask(tunnels, row, t(`pair.${row.mode}Text`), () => ofTunnelById(row.id)),
    ofPeer: (row: TunnelPeer) => void ask(peers, row, t('pair.peerText'), () => ofPeerById(row.id)),
  }
}

const ofTunnelById = (id: string) =>
  answer(http.POST('/tunnel/interfaces/{id}/generate-keypair', { params: { path: { id } } }))
const ofPeerById = (id: string) => answer(http.POST('/peers/{id}/generate-keypair', { params: { path: { id } } }))
