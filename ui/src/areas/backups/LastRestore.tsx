import './texts'
import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Restore } from '../../api/types'
import { CopyText } from '../../kit/CopyText'
import { clockTime } from '../../kit/format'
import { JobSteps } from '../../kit/JobSteps'
import { firstSeen, jobTone } from '../../kit/job'
import { Loaded } from '../../kit/Loaded'
import { Notice } from '../../kit/Notice'
import { Panel } from '../../kit/Page'
import classes from './Backups.module.css'
import { restoreQuery } from './resources'

/** Milliseconds after which a restore takes longer than usual. */
const usual = 3 * 60_000

/** The restore that runs, or how the last one went. It goes on asking while the gateway is away. */
export function LastRestore() {
  const { t } = useTranslation('backups')
  const query = useQuery(restoreQuery)
  const running = query.data?.state === 'running'
  if (query.data && query.isError && running) {
    // The gateway is away because its data are being replaced: that is no reason to say that something is wrong.
    return (
      <Panel title={t('last.running')}>
        <Progress restore={query.data} awaySince={query.dataUpdatedAt} />
      </Panel>
    )
  }
  return (
    <Panel title={t(running ? 'last.running' : 'last.title')}>
      <Loaded query={query} height={60}>
        {(restore) => (restore.state === 'running' ? <Progress restore={restore} /> : <Result restore={restore} />)}
      </Loaded>
    </Panel>
  )
}

function Progress({ restore, awaySince }: { restore: Restore; awaySince?: number }) {
  const { t } = useTranslation('backups')
  const [since] = useState(() => firstSeen('restore', restore.id, sessionStorage, Date.now()))
  const [slow, setSlow] = useState(Date.now() - since >= usual)
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), Math.max(0, since + usual - Date.now()))
    return () => clearTimeout(timer)
  }, [since])
  return (
    <div className={classes.stack}>
      <p>{restore.summary}</p>
      {awaySince !== undefined && (
        <Notice tone="off" title={t('last.awayTitle', { time: clockTime(awaySince) })}>
          {t('last.awayText')}
        </Notice>
      )}
      {slow && (
        <Notice tone="warn" title={t('last.slowTitle')}>
          {t('last.slowText')}
          <CopyText label={t('last.command')} text="gateway-ctl restore" />
        </Notice>
      )}
      <JobSteps text="backups" steps={restore.steps} />
    </div>
  )
}

function Result({ restore }: { restore: Restore }) {
  const { t } = useTranslation('backups')
  return (
    <div className={classes.stack}>
      <Notice tone={jobTone[restore.state]} title={restore.summary}>
        {restore.reason}
      </Notice>
      {restore.warnings.map((text) => (
        <Notice key={text} tone="warn" title={text} />
      ))}
      {restore.steps.length > 0 && (
        <details open={restore.state !== 'done'}>
          <summary>{t('last.log')}</summary>
          <div className={classes.log}>
            <JobSteps text="backups" steps={restore.steps} />
          </div>
        </details>
      )}
    </div>
  )
}
