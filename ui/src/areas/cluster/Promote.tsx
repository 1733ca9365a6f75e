import './texts'
import { Button, TextInput } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { ClusterStatus } from '../../api/types'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { FaultNotice, Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { toast } from '../../kit/state/toast'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import classes from './Cluster.module.css'
import { statusQuery } from './resources'

/** Makes this node the primary: regularly, or by force while the primary is away, which can lose changes. */
export default function Promote() {
  const { t } = useTranslation('cluster')
  const query = useQuery(statusQuery)
  return (
    <DetailDrawer title={t('promote.title')} back={paths.cluster}>
      <Loaded query={query} height={160}>
        {(status) => <Question status={status} />}
      </Loaded>
    </DetailDrawer>
  )
}

function Question({ status }: { status: ClusterStatus }) {
  const { t } = useTranslation('cluster')
  const navigate = useNavigate()
  const queries = useQueryClient()
  const [typed, setTyped] = useState('')
  const { local_node: me, peers } = status
  const split = status.health === 'split-brain'
  const primary = peers.find(({ role, status: is }) => role === 'primary' && is !== 'pending')
  const forced = !split && (primary?.status !== 'online' || primary.error !== '')
  const act = useMutation({
    mutationFn: () => unwrap(http.POST('/cluster/promote', { body: { force: forced } })),
    onSuccess: async (now) => {
      queries.setQueryData(statusQuery.queryKey, now)
      toast('live', t('promote.done', { name: me.fqdn }))
      await queries.invalidateQueries({ queryKey: ['cluster'] })
      await navigate({ to: paths.cluster })
    },
  })
  if (me.role === 'primary' || me.role === 'single') return <Notice tone="live">{t('promote.already')}</Notice>
  return (
    <form
      className={classes.form}
      onSubmit={(event) => {
        event.preventDefault()
        act.mutate()
      }}
    >
      {act.isError && <FaultNotice fault={act.error} />}
      {split && (
        <Notice tone="bad" title={t('promote.splitTitle')}>
          {t('promote.splitText', { name: me.fqdn })}
        </Notice>
      )}
      {!split && !forced && <p>{t('promote.planned', { from: primary?.fqdn, to: me.fqdn })}</p>}
      {forced && (
        <Notice tone="bad" title={t('promote.forcedTitle', { name: primary?.fqdn ?? t('promote.unknown') })}>
          {primary?.seen_at && (
            <p>
              {t('promote.seen')} <Time at={primary.seen_at} />.
            </p>
          )}
          <p>{t('promote.loss')}</p>
          <p>{t('promote.back')}</p>
        </Notice>
      )}
      {(forced || split) && (
        <TextInput
          label={t('promote.type')}
          description={<span className="mono">{me.fqdn}</span>}
          value={typed}
          onChange={(event) => setTyped(event.currentTarget.value)}
          classNames={{ input: 'mono' }}
          autoComplete="off"
        />
      )}
      <Button
        type="submit"
        color={forced || split ? 'red.8' : undefined}
        loading={act.isPending}
        disabled={(forced || split) && typed.trim() !== me.fqdn}
      >
        {t(forced ? 'promote.forceVerb' : 'promote.verb')}
      </Button>
    </form>
  )
}
