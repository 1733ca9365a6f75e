import './texts'
import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Upgrade } from '../../api/types'
import { healthQuery } from '../../app/state'
import { CopyText } from '../../kit/CopyText'
import { clockTime } from '../../kit/format'
import { JobSteps } from '../../kit/JobSteps'
import { firstSeen, jobTone } from '../../kit/job'
import { Loaded } from '../../kit/Loaded'
import { Notice } from '../../kit/Notice'
import { Panel } from '../../kit/Page'
import { mustReload, usual } from './progress'
import { upgradeQuery } from './resources'
import classes from './Updates.module.css'

/** The upgrade that runs, or how the last one went. It goes on asking while the gateway is away. */
export function LastUpgrade() {
  const { t } = useTranslation('updates')
  const query = useQuery(upgradeQuery)
  const running = query.data?.state === 'running'
  useNewVersion(running)
  if (query.data && query.isError && running) {
    // The gateway is away because it is being replaced: that is no reason to say that something is wrong.
    return (
      <Panel title={t('last.running')}>
        <Progress upgrade={query.data} awaySince={query.dataUpdatedAt} />
      </Panel>
    )
  }
  return (
    <Panel title={t(running ? 'last.running' : 'last.title')}>
      <Loaded query={query} height={60}>
        {(upgrade) => (upgrade.state === 'running' ? <Progress upgrade={upgrade} /> : <Result upgrade={upgrade} />)}
      </Loaded>
    </Panel>
  )
}

/** Reloads the page once when another version serves than the one that the page came from. */
function useNewVersion(running: boolean) {
  const health = useQuery({ ...healthQuery, refetchInterval: running ? 2000 : 15_000 })
  const serving = health.data?.version
  const loaded = useRef(serving)
  useEffect(() => {
    loaded.current ??= serving
    if (mustReload(loaded.current, serving, sessionStorage)) location.reload()
  }, [serving])
}

function Progress({ upgrade, awaySince }: { upgrade: Upgrade; awaySince?: number }) {
  const { t } = useTranslation('updates')
  const [since] = useState(() => firstSeen('upgrade', upgrade.id, sessionStorage, Date.now()))
  const [slow, setSlow] = useState(Date.now() - since >= usual)
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), Math.max(0, since + usual - Date.now()))
    return () => clearTimeout(timer)
  }, [since])
  return (
    <div className={classes.stack}>
      <p>{upgrade.summary}</p>
      {awaySince !== undefined && (
        <Notice tone="off" title={t('last.awayTitle', { time: clockTime(awaySince) })}>
          {t('last.awayText')}
        </Notice>
      )}
      {slow && (
        <Notice tone="warn" title={t('last.slowTitle')}>
          {t('last.slowText')}
          <CopyText label={t('last.command')} text="gateway-ctl upgrade" />
        </Notice>
      )}
      <JobSteps text="updates" steps={upgrade.steps} />
    </div>
  )
}

function Result({ upgrade }: { upgrade: Upgrade }) {
  const { t } = useTranslation('updates')
  if (upgrade.state === 'none') return <p className="soft">{t('last.none')}</p>
  return (
    <div className={classes.stack}>
      <Notice tone={jobTone[upgrade.state]} title={upgrade.summary}>
        {upgrade.reason}
      </Notice>
      {upgrade.steps.length > 0 && (
        <details open={upgrade.state !== 'done'}>
          <summary>{t('last.log')}</summary>
          <div className={classes.log}>
            <JobSteps text="updates" steps={upgrade.steps} />
          </div>
        </details>
      )}
    </div>
  )
}
