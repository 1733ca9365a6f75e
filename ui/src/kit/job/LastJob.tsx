import type { UseQueryResult } from '@tanstack/react-query'
import { type ReactNode, useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { CopyText } from '../page/CopyText'
import { Panel } from '../page/Page'
import { Loaded } from '../state/Loaded'
import { Notice } from '../state/Notice'
import { clockTime } from '../text/format'
import { JobSteps } from './JobSteps'
import { firstSeen, type JobState, type JobStep, jobTone } from './job'
import classes from './LastJob.module.css'

interface Job {
  id: string
  state: JobState
  summary: string
  reason: string
  steps: readonly JobStep[]
}

interface Kind {
  /** The area with the texts `last` and `step`. */
  text: string
  /** The name of the job, in the browser's storage and for gateway-ctl. */
  name: string
  /** Milliseconds after which it takes longer than usual. */
  usual: number
}

interface LastJobProps<T extends Job> extends Kind {
  query: UseQueryResult<T>
  /** Shown with the result, next to its reason. */
  more?: (job: T) => ReactNode
}

/** The running job, or the result of the last one. Keeps polling while the gateway is unreachable. */
export function LastJob<T extends Job>({ query, more, ...kind }: LastJobProps<T>) {
  const { t } = useTranslation(kind.text)
  const running = query.data?.state === 'running'
  if (query.data && query.isError && running) {
    // The job replaces a part of the gateway, so its absence is not an error.
    return (
      <Panel title={t('last.running')}>
        <RunningJob {...kind} job={query.data} awaySince={query.dataUpdatedAt} />
      </Panel>
    )
  }
  return (
    <Panel title={t(running ? 'last.running' : 'last.title')}>
      <Loaded query={query} height={60}>
        {(job) => {
          if (job.state === 'none') return <p className="soft">{job.summary}</p>
          if (job.state === 'running') return <RunningJob {...kind} job={job} />
          return (
            <JobResult text={kind.text} job={job}>
              {more?.(job)}
            </JobResult>
          )
        }}
      </Loaded>
    </Panel>
  )
}

/** A running job, and since when the gateway has been unreachable. */
export function RunningJob({ text, name, usual, job, awaySince }: Kind & { job: Job; awaySince?: number }) {
  const { t } = useTranslation(text)
  const [since] = useState(() => firstSeen(name, job.id, sessionStorage, Date.now()))
  const [slow, setSlow] = useState(Date.now() - since >= usual)
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), Math.max(0, since + usual - Date.now()))
    return () => clearTimeout(timer)
  }, [since, usual])
  return (
    <div className={classes.stack}>
      <p>{job.summary}</p>
      {awaySince !== undefined && (
        <Notice tone="off" title={t('last.awayTitle', { time: clockTime(awaySince) })}>
          {t('last.awayText')}
        </Notice>
      )}
      {slow && (
        <Notice tone="warn" title={t('last.slowTitle')}>
          {t('last.slowText')}
          <CopyText label={t('last.command')} text={`gateway-ctl ${name}`} />
        </Notice>
      )}
      <JobSteps text={text} steps={job.steps} />
    </div>
  )
}

/** The result of a job. */
export function JobResult({ text, job, children }: { text: string; job: Job; children?: ReactNode }) {
  const { t } = useTranslation(text)
  return (
    <div className={classes.stack}>
      <Notice tone={jobTone[job.state]} title={job.summary}>
        {job.reason}
      </Notice>
      {children}
      {job.steps.length > 0 && (
        <details open={job.state !== 'done'}>
          <summary>{t('last.log')}</summary>
          <div className={classes.log}>
            <JobSteps text={text} steps={job.steps} />
          </div>
        </details>
      )}
    </div>
  )
}
