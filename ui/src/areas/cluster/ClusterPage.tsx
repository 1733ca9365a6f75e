import './texts'
import { Button } from '@mantine/core'
import { IconPlus } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Link, Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { vipSettings } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { ClusterStatus, VipStatus } from '../../api/types'
import type { Fields } from '../../kit/form/fields'
import { SettingsForm } from '../../kit/form/ResourceForm'
import { Facts, Page, Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Notice, type Tone } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import { linkNames } from '../network/links'
import { useLinks } from '../network/useLinks'
import classes from './Cluster.module.css'
import { Differences } from './Differences'
import { Drawing } from './Drawing'
import { Rolling } from './Rolling'
import { statusQuery, vipStatusQuery } from './resources'

export default function ClusterPage() {
  const { t } = useTranslation('cluster')
  const canEdit = useCanEdit()
  const { links } = useLinks()
  const query = useQuery(statusQuery)
  const single = query.data?.mode === 'single-node' && query.data.peers.length === 0
  const takesNodes = ['single', 'primary'].includes(query.data?.local_node.role ?? '')
  const add = canEdit && takesNodes && (
    <Button component={Link} to={paths.clusterAdd} leftSection={<IconPlus size={16} />}>
      {t('add.title')}
    </Button>
  )
  const fields: Fields<'cluster.vip-settings'> = [
    { name: 'vip_address', type: 'mono' },
    { name: 'vip_interface', type: 'suggest', choices: linkNames(links, 'lo') },
    { name: 'vrrp_router_id', type: 'number', required: true },
  ]
  return (
    <Page title={t('title')} lead={t('lead')} actions={!single && add}>
      <Loaded query={query} height={220}>
        {(status) =>
          single ? (
            <Alone action={add} />
          ) : (
            <>
              <Problems status={status} />
              <Drawing status={status} />
              {status.mode === 'cluster' && status.local_node.role === 'primary' && <Rolling status={status} />}
            </>
          )
        }
      </Loaded>
      {canEdit && <Differences />}
      <VirtualAddresses />
      <Panel title={t('settings.title')} aside={!single && <Badge tone="off">{t('common:local.badge')}</Badge>}>
        <SettingsForm singleton={vipSettings} text="cluster:settings" fields={fields} />
      </Panel>
      <Outlet />
    </Page>
  )
}

/** A gateway without a cluster: what a cluster offers, and the first step. */
function Alone({ action }: { action: React.ReactNode }) {
  const { t } = useTranslation('cluster')
  return (
    <Panel>
      <div className={classes.alone}>
        <h2>{t('alone.title')}</h2>
        <ul>
          {(['failover', 'copy', 'updates'] as const).map((gift) => (
            <li key={gift}>{t(`alone.${gift}`)}</li>
          ))}
        </ul>
        <p className="soft">{t('alone.first')}</p>
        {action}
      </div>
    </Panel>
  )
}

function Problems({ status }: { status: ClusterStatus }) {
  const { t } = useTranslation('cluster')
  if (status.health === 'OK') return null
  return (
    <Notice tone={status.health === 'split-brain' ? 'bad' : 'warn'} title={t(`health.${status.health}`)}>
      <ul className={classes.problems}>
        {status.problems.map((problem) => (
          <li key={problem}>{problem}</li>
        ))}
      </ul>
    </Notice>
  )
}

const tones: Record<string, Tone> = { master: 'live', backup: 'live', fault: 'bad' }

/** The virtual addresses, as this node sees them. */
function VirtualAddresses() {
  const { t } = useTranslation('cluster')
  const query = useQuery(vipStatusQuery)
  const named = ({ clustered, state }: VipStatus) => (clustered ? state || 'none' : 'single')
  return (
    <Panel title={t('vip.title')}>
      <Loaded query={query} height={42}>
        {(status) => (
          <>
            {status.drained && (
              <Notice tone="warn" title={t('vip.drained')}>
                {t('vip.drainedText')}
              </Notice>
            )}
            <Facts
              facts={[
                [
                  t('vip.state'),
                  <Badge key="s" tone={tones[status.state] ?? 'off'}>
                    {t(`vip.states.${named(status)}`)}
                  </Badge>,
                ],
                [t('vip.since'), status.since ? <Time key="t" at={status.since} /> : '–'],
                [
                  t('vip.addresses'),
                  <span key="a" className="mono">
                    {status.addresses.join(', ') || '–'}
                  </span>,
                ],
              ]}
            />
          </>
        )}
      </Loaded>
    </Panel>
  )
}
