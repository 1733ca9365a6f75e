import './texts'
import { IconHourglass } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Upgrade, UpgradeStep } from '../../api/types'
import { healthQuery } from '../../app/state'
import { CopyText } from '../../kit/CopyText'
import { clockTime, duration } from '../../kit/format'
import { Loaded } from '../../kit/Loaded'
import { Notice } from '../../kit/Notice'
import { Panel } from '../../kit/Page'
import { Badge } from '../../kit/StateBadge'
import { firstSeen, mustReload, stepTone, upgradeTone, usual } from './progress'
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
  const [since] = useState(() => firstSeen(upgrade.id, sessionStorage, Date.now()))
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
      <Steps steps={upgrade.steps} />
    </div>
  )
}

function Result({ upgrade }: { upgrade: Upgrade }) {
  const { t } = useTranslation('updates')
  if (upgrade.state === 'none') return <p className="soft">{t('last.none')}</p>
  return (
    <div className={classes.stack}>
      <Notice tone={upgradeTone[upgrade.state]} title={upgrade.summary}>
        {upgrade.reason}
      </Notice>
      {upgrade.steps.length > 0 && (
        <details open={upgrade.state !== 'done'}>
          <summary>{t('last.log')}</summary>
          <div className={classes.log}>
            <Steps steps={upgrade.steps} />
          </div>
        </details>
      )}
    </div>
  )
}

function Steps({ steps }: { steps: readonly UpgradeStep[] }) {
  const { t } = useTranslation('updates')
  return (
    <ol className={classes.steps}>
      {steps.map((step) => (
        <li key={step.began_at} className={classes.step}>
          <div className={classes.stepHead}>
            <span>{t(`step.${step.name}`)}</span>
            <span>
              {step.ended_at && <span className="soft">{duration(secondsOf(step))} </span>}
              <Badge tone={stepTone[step.state]} icon={step.state === 'running' ? IconHourglass : undefined}>
                {t(`stepState.${step.state}`)}
              </Badge>
            </span>
          </div>
          {step.error && <div>{step.error}</div>}
          {step.output && (
            <details>
              <summary>{t('last.output')}</summary>
              <pre className={`mono ${classes.output}`}>{step.output}</pre>
            </details>
          )}
        </li>
      ))}
    </ol>
  )
}

const secondsOf = ({ began_at, ended_at }: UpgradeStep) =>
  Math.max(1, Math.round((Date.parse(ended_at as string) - Date.parse(began_at)) / 1000))
