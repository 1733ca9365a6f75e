import { Button } from '@mantine/core'
import {
  IconArrowNarrowDown,
  IconArrowNarrowRight,
  IconCrown,
  IconMapPin,
  IconServer2,
  IconX,
} from '@tabler/icons-react'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { useCanEdit } from '../../api/session'
import type { ClusterNode, ClusterStatus } from '../../api/types'
import { Facts } from '../../kit/page/Page'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { bytes, duration } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import { Remove, Repair } from './actions'
import classes from './Cluster.module.css'
import { drawn, flowOf, flowTone, isExpected, standingOf, standingTone } from './standing'

/** The cluster as a drawing: the primary, and the replication to each of the other nodes. */
export function Drawing({ status }: { status: ClusterStatus }) {
  const { t } = useTranslation('cluster')
  const { first, others, headed } = drawn(status)
  return (
    <div className={classes.drawing} data-alone={others.length === 0 || undefined}>
      <NodeCard node={first} status={status} />
      {others.length > 0 && (
        <ul className={classes.others} aria-label={t('others')}>
          {others.map((node) => (
            <li key={node.id}>
              {headed ? <Flow node={node} primary={first} /> : <span />}
              <NodeCard node={node} status={status} />
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}

/** The line between the primary and a node: the direction, and how far the node lags behind. */
function Flow({ node, primary }: { node: ClusterNode; primary: ClusterNode }) {
  const { t } = useTranslation('cluster')
  const flow = flowOf(node, primary)
  const lag = [
    node.lag_seconds != null && t('flow.seconds', { lag: node.lag_seconds < 1 ? '< 1 s' : duration(node.lag_seconds) }),
    node.behind_bytes != null && bytes(node.behind_bytes),
  ].filter(Boolean)
  const broken = flowTone[flow] === 'bad'
  return (
    <div className={classes.flow} data-tone={flowTone[flow]}>
      <span className={classes.line} aria-hidden>
        {broken ? (
          <IconX size={18} className={classes.cut} />
        ) : (
          <>
            <IconArrowNarrowRight size={22} className={classes.right} />
            <IconArrowNarrowDown size={22} className={classes.down} />
          </>
        )}
      </span>
      <span className={classes.flowText}>
        <Badge tone={flowTone[flow]}>{t(`flow.${flow}`)}</Badge>
        {!broken && lag.length > 0 && <span className="soft">{lag.join(' · ')}</span>}
      </span>
    </div>
  )
}

function NodeCard({ node, status }: { node: ClusterNode; status: ClusterStatus }) {
  const { t } = useTranslation('cluster')
  const standing = standingOf(node)
  const single = status.mode === 'single-node' && node.local
  const facts: [string, ReactNode][] = []
  if (!isExpected(node)) {
    facts.push([t('node.version'), <Version key="v" node={node} status={status} />])
    if (node.internal_ip)
      facts.push([
        t('node.address'),
        <span key="a" className="mono">
          {node.internal_ip}
        </span>,
      ])
    if (!node.local) facts.push([t('node.seen'), <Time key="s" at={node.seen_at} />])
    if (node.role === 'standby') facts.push([t('node.synced'), <Time key="y" at={node.synced_at} />])
    if (node.epoch > 0) facts.push([t('node.epoch'), node.epoch])
  }
  return (
    <article
      className={classes.node}
      data-role={node.role}
      data-expected={isExpected(node) || undefined}
      aria-label={node.fqdn}
    >
      <header>
        <IconServer2 size={20} stroke={1.6} aria-hidden />
        <h2 className="mono">{node.fqdn}</h2>
        {node.local && <span className={classes.here}>{t('node.here')}</span>}
      </header>
      <div className={classes.badges}>
        {!isExpected(node) && !single && (
          <Badge
            tone={node.role === 'primary' && standing === 'online' ? 'live' : 'off'}
            icon={node.role === 'primary' ? IconCrown : undefined}
          >
            {t(`role.${node.role}`)}
          </Badge>
        )}
        <Badge tone={standingTone[standing] ?? 'off'}>{t(`standing.${standing}`)}</Badge>
        {node.holds_vip && (
          <Badge tone="live" icon={IconMapPin}>
            {t('node.vip')}
          </Badge>
        )}
      </div>
      {node.status === 'pending' && <p className="soft">{t('node.pending')}</p>}
      {facts.length > 0 && <Facts facts={facts} />}
      {node.error && !isExpected(node) && <p className={classes.error}>{node.error}</p>}
      {node.drift.length > 0 && (
        <div className={classes.drift}>
          {t('node.drift')}
          <ul>
            {node.drift.map((table) => (
              <li key={table} className="mono">
                {table || t('node.schema')}
              </li>
            ))}
          </ul>
        </div>
      )}
      <RepairState node={node} />
      <Actions node={node} status={status} />
    </article>
  )
}

/** Highlights a version that differs from this node's. */
function Version({ node, status }: { node: ClusterNode; status: ClusterStatus }) {
  const { t } = useTranslation('cluster')
  if (!node.version) return '–'
  if (node.version === status.local_node.version) return <span className="mono">{node.version}</span>
  return <Badge tone="warn">{t('node.otherVersion', { version: node.version })}</Badge>
}

const anHour = 3_600_000

/** A repair that is running, has failed or ended recently. */
function RepairState({ node: { repair, role, drift } }: { node: ClusterNode }) {
  const { t } = useTranslation('cluster')
  if (!repair || role === 'primary') return null
  if (repair.state === 'running') {
    return (
      <Notice tone="warn" title={t('repair.running')}>
        <Time at={repair.started_at} />
      </Notice>
    )
  }
  const ended = repair.ended_at ? new Date(repair.ended_at).getTime() : 0
  if (Date.now() - ended > anHour) return null
  if (repair.state === 'failed') {
    return (
      <Notice tone="bad" title={t('repair.failed')}>
        {repair.error}
      </Notice>
    )
  }
  if (drift.length > 0) return null // it has drifted since
  const rows = Object.values(repair.tables ?? {}).reduce((n, x) => n + x.added + x.changed + x.removed, 0)
  return (
    <Notice tone="live" title={t('repair.done', { count: rows })}>
      <Time at={repair.ended_at} />
    </Notice>
  )
}

/**
 * What can be done with a node from here. Cluster changes are made on the primary, but a node is promoted on the node
 * itself.
 */
function Actions({ node, status }: { node: ClusterNode; status: ClusterStatus }) {
  const { t } = useTranslation('cluster')
  const canEdit = useCanEdit()
  if (!canEdit) return null
  const here = status.local_node.role
  const follows = ['standby', 'fenced'].includes(node.role) && !isExpected(node)
  return (
    <div className={classes.actions}>
      {node.local && follows && (
        <Button component={Link} to={paths.clusterPromote} size="compact-sm" variant="default">
          {t('promote.verb')}
        </Button>
      )}
      {follows && (node.local || here === 'primary') && <Repair node={node} />}
      {here === 'primary' && !node.local && <Remove node={node} />}
      {!node.local && node.console_url && (
        <a href={node.console_url} target="_blank" rel="noreferrer">
          {t('node.console')}
        </a>
      )}
    </div>
  )
}
