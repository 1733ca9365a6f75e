import { Button } from '@mantine/core'
import { IconHourglass } from '@tabler/icons-react'
import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { useCanEdit } from '../../api/session'
import type { ClusterStatus } from '../../api/types'
import { confirm } from '../../kit/change/confirm'
import { Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { Time } from '../../kit/text/Time'
import { versionsQuery } from '../updates/resources'
import classes from './Cluster.module.css'

const rollingQuery = queryOptions({
  queryKey: ['cluster', 'rolling-update'],
  queryFn: () => unwrap(http.GET('/cluster/rolling-update')),
  refetchInterval: 3000,
})

/** The update of all nodes, standbys first: the available version, or the progress. The primary runs it. */
export function Rolling({ status }: { status: ClusterStatus }) {
  const { t } = useTranslation('cluster')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  const query = useQuery(rollingQuery)
  const versions = useQuery(versionsQuery)
  const offered = versions.data?.packages[0]
  const nodes = [...status.peers, status.local_node]
  const ask = () =>
    confirm({
      title: t('rolling.title', { version: offered?.available }),
      text: t('rolling.text'),
      verb: t('rolling.verb'),
      act: async () => queries.setQueryData(rollingQuery.queryKey, await unwrap(http.POST('/cluster/rolling-update'))),
    })
  return (
    <Panel title={t('rolling.panel')}>
      <Loaded query={query} height={60}>
        {(now) => {
          const running = !['idle', 'error'].includes(now.phase)
          return (
            <div className={classes.form}>
              {now.phase === 'error' && (
                <Notice tone="bad" title={t('rolling.failed', { node: now.node })}>
                  {now.error}
                </Notice>
              )}
              {running && (
                <p>
                  {t('rolling.running', { from: now.from, to: now.to })} <Time at={now.started_at} />
                </p>
              )}
              {running && (
                <ol className={classes.steps}>
                  {nodes.map(({ fqdn }) => {
                    const done = now.updated.includes(fqdn)
                    const at = now.node === fqdn
                    return (
                      <li key={fqdn} aria-current={at ? 'step' : undefined}>
                        <Badge
                          tone={done ? 'live' : at ? 'warn' : 'off'}
                          icon={at && !done ? IconHourglass : undefined}
                        >
                          {fqdn}
                        </Badge>
                        {at && !done && <span className="soft">{t(`rolling.phase.${now.phase}`)}</span>}
                      </li>
                    )
                  })}
                </ol>
              )}
              {!running &&
                (offered?.upgradable ? (
                  <p>{t('rolling.offered', { version: offered.available })}</p>
                ) : (
                  <p className="soft">{t('rolling.none')}</p>
                ))}
              {!running && canEdit && offered?.upgradable && (
                <div>
                  <Button onClick={ask} disabled={status.health !== 'OK'}>
                    {t('rolling.verb')}
                  </Button>
                  {status.health !== 'OK' && <span className="soft"> {t('rolling.unhealthy')}</span>}
                </div>
              )}
            </div>
          )
        }}
      </Loaded>
    </Panel>
  )
}
