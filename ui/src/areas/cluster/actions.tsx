import { Button } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { ClusterNode } from '../../api/types'
import { confirm } from '../../kit/change/confirm'
import { toast } from '../../kit/state/toast'
import { statusQuery } from './resources'
import { isExpected } from './standing'

/** Makes a standby identical to the primary again. */
export function Repair({ node }: { node: ClusterNode }) {
  const { t } = useTranslation('cluster')
  const queries = useQueryClient()
  const ask = () =>
    confirm({
      title: t('repair.title', { name: node.fqdn }),
      text: (
        <>
          <p>{t('repair.text')}</p>
          <p>{t('repair.kept')}</p>
        </>
      ),
      verb: t('repair.verb'),
      act: async () => {
        const body = { node_id: node.local ? '' : node.id, force: false }
        await unwrap(http.POST('/cluster/repair-replication', { body }))
        await queries.invalidateQueries(statusQuery)
      },
    })
  return (
    <Button size="compact-sm" variant="default" onClick={ask} disabled={node.repair?.state === 'running'}>
      {t('repair.verb')}
    </Button>
  )
}

/** Removes a node from the cluster, or cancels its join. */
export function Remove({ node }: { node: ClusterNode }) {
  const { t } = useTranslation('cluster')
  const queries = useQueryClient()
  const expected = isExpected(node)
  const away = !expected && (node.status !== 'online' || node.error !== '')
  const ask = () =>
    confirm({
      title: t(expected ? 'remove.cancelTitle' : 'remove.title', { name: node.fqdn }),
      text: (
        <>
          <p>{t(expected ? 'remove.cancelText' : 'remove.text')}</p>
          {away && <p>{t('remove.away')}</p>}
        </>
      ),
      verb: t(expected ? 'remove.cancelVerb' : 'remove.verb'),
      danger: true,
      act: async () => {
        const left = await unwrap(http.POST('/cluster/nodes/{id}/leave', { params: { path: { id: node.id } } }))
        if (!expected && !left.reached) toast('warn', t('remove.unreached', { name: node.fqdn }))
        else toast('live', t('remove.done', { name: node.fqdn }))
        await queries.invalidateQueries({ queryKey: ['cluster'] })
      },
    })
  return (
    <Button size="compact-sm" variant="default" onClick={ask}>
      {t(expected ? 'remove.cancelVerb' : 'remove.verb')}
    </Button>
  )
}
