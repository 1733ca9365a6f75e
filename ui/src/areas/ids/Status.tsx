import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import type { IdsStatus } from '../../api/types'
import { CopyText } from '../../kit/page/CopyText'
import { Facts, Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { count } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import classes from './Ids.module.css'
import { DaemonBadge, originName } from './marks'
import { statusQuery } from './resources'

/** The state of intrusion detection, and what to do if it does not work. */
export function Status() {
  const { t } = useTranslation('ids')
  const query = useQuery(statusQuery)
  return (
    <Loaded query={query} height={110}>
      {(status) => (
        <>
          <Trouble status={status} />
          <Panel title={t('status.title')}>
            <Facts facts={factsOf(status, t)} />
          </Panel>
        </>
      )}
    </Loaded>
  )
}

function factsOf(status: IdsStatus, t: (key: string) => string): [string, React.ReactNode][] {
  const daemon = (name: 'agent' | 'firewall_bouncer', wanted: boolean): [string, React.ReactNode] => [
    t(`status.${name}`),
    <span key={name} className={classes.daemon}>
      <DaemonBadge daemon={status[name]} wanted={wanted} />
      {status[name].state === 'running' && status[name].since && (
        <span className="soft">
          <Time at={status[name].since} />
        </span>
      )}
    </span>,
  ]
  const origins = Object.entries(status.origins)
  return [
    daemon('agent', status.enabled),
    daemon('firewall_bouncer', status.enabled && status.blocking),
    [t('status.decisions'), status.error ? t('status.unknown') : count(status.decisions)],
    ...(origins.length > 0
      ? [
          [
            t('status.byOrigin'),
            origins.map(([origin, number]) => `${originName(origin)} ${count(number)}`).join(' · '),
          ] satisfies [string, React.ReactNode],
        ]
      : []),
  ]
}

/** What is missing, in the order in which to fix it. */
function Trouble({ status: { agent, firewall_bouncer: bouncer, enabled, blocking } }: { status: IdsStatus }) {
  const { t } = useTranslation('ids')
  const missing = (packages: string, title: string, text: string) => (
    <Notice tone={enabled ? 'warn' : 'off'} title={title}>
      {text}
      <CopyText text={`apt install ${packages}`} label={t('status.command')} />
    </Notice>
  )
  const unknown = [agent, bouncer].find(({ state }) => state === 'unknown')
  if (unknown) {
    return (
      <Notice tone="off" title={t('status.unknownTitle')}>
        {unknown.detail}
      </Notice>
    )
  }
  if (agent.state === 'not_installed') {
    return missing('crowdsec crowdsec-firewall-bouncer', t('status.notInstalledTitle'), t('status.notInstalledText'))
  }
  if (!enabled) return null
  if (agent.state === 'stopped' || agent.state === 'failed') {
    return (
      <Notice tone="bad" title={t('status.agentDownTitle')}>
        {t('status.agentDownText')} {agent.detail}
      </Notice>
    )
  }
  if (!blocking) {
    return (
      <Notice tone="warn" title={t('status.notBlockingTitle')}>
        {t('status.notBlockingText')}
      </Notice>
    )
  }
  if (bouncer.state === 'not_installed') {
    return missing('crowdsec-firewall-bouncer', t('status.bouncerMissingTitle'), t('status.bouncerMissingText'))
  }
  if (bouncer.state === 'stopped' || bouncer.state === 'failed') {
    return (
      <Notice tone="bad" title={t('status.bouncerDownTitle')}>
        {t('status.bouncerDownText')} {bouncer.detail}
      </Notice>
    )
  }
  return null
}
