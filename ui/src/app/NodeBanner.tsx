import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, useLocation } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { useCanEdit } from '../api/session'
import { nodesQuery } from '../api/state'
import type { ClusterNode } from '../api/types'
import { Notice } from '../kit/state/Notice'
import { Badge } from '../kit/state/StateBadge'
import { Time } from '../kit/text/Time'
import { localPages, paths } from '../paths'
import classes from './NodeBanner.module.css'

/** In a cluster: where to make changes, if not here, and whether a page is about this node alone. */
export default function NodeBanner() {
  const { data: nodes = [] } = useQuery(nodesQuery)
  const { pathname } = useLocation()
  const me = nodes.find(({ local }) => local)
  if (!me || nodes.length < 2) return null
  const own = localPages.some((page) => pathname === page || pathname.startsWith(`${page}/`))
  if (me.role === 'primary' && !own) return null
  return (
    <div className={classes.banner}>
      {me.role !== 'primary' && <Standby me={me} nodes={nodes} cluster={pathname === paths.cluster} />}
      {own && <ThisNode name={me.fqdn} />}
    </div>
  )
}

function ThisNode({ name }: { name: string }) {
  const { t } = useTranslation()
  return (
    <p className={classes.own}>
      <Badge tone="off">{t('local.badge')}</Badge> <span className="soft">{t('local.text', { name })}</span>
    </p>
  )
}

function Standby({ me, nodes, cluster }: { me: ClusterNode; nodes: ClusterNode[]; cluster: boolean }) {
  const { t } = useTranslation()
  const canEdit = useCanEdit()
  const primary = nodes.find(({ local, role, status }) => !local && role === 'primary' && status !== 'pending')
  const away = primary && (primary.status === 'offline' || primary.error !== '')
  const promote = canEdit && (
    <Button component={Link} to={paths.clusterPromote} size="compact-sm" color="red.8">
      {t('standby.promote')}
    </Button>
  )
  if (!primary) {
    return (
      <Notice tone="bad" title={t('standby.none')} action={promote}>
        {!cluster && <Link to={paths.cluster}>{t('standby.cluster')}</Link>}
      </Notice>
    )
  }
  if (away) {
    return (
      <Notice tone="bad" title={t('standby.away', { primary: primary.fqdn })} action={promote}>
        {primary.seen_at && (
          <>
            {t('standby.awaySince')} <Time at={primary.seen_at} />
          </>
        )}
      </Notice>
    )
  }
  const open = (
    <a href={primary.console_url} target="_blank" rel="noreferrer">
      {t('standby.open')}
    </a>
  )
  if (me.role === 'fenced')
    return <Notice tone="warn" title={t('standby.fenced', { primary: primary.fqdn })} action={open} />
  return <Notice tone="off" title={t('standby.text', { primary: primary.fqdn })} action={open} />
}
