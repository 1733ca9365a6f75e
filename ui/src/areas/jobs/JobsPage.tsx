import { Button } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { useCanEdit } from '../../api/session'
import type { Job } from '../../api/types'
import { addTexts } from '../../i18n/i18n'
import type { Column } from '../../kit/list/DataTable'
import { RowList } from '../../kit/list/ResourceList'
import { Page } from '../../kit/page/Page'
import type { Tone } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { toast, toastFault } from '../../kit/state/toast'
import { duration } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import en from './en.json'
import classes from './Jobs.module.css'

addTexts('jobs', en)

type Row = Job & { id: string }

const key = ['system', 'jobs']

export default function JobsPage() {
  const { t } = useTranslation('jobs')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  const query = useQuery({ queryKey: key, queryFn: () => unwrap(http.GET('/system/jobs')), refetchInterval: 3000 })
  const run = useMutation({
    mutationFn: (name: string) => unwrap(http.POST('/system/jobs/{name}/run', { params: { path: { name } } })),
    onSuccess: (_, name) => toast('live', t('wanted', { name })),
    onError: toastFault,
    onSettled: () => queries.invalidateQueries({ queryKey: key }),
  })
  const columns: Column<Row>[] = [
    {
      key: 'job',
      header: t('job'),
      width: 'minmax(0, 2fr)',
      cell: (row) => (
        <div>
          {row.title}
          <div className={classes.note}>
            <span className="mono">{row.name}</span> · <Rhythm job={row} />
          </div>
        </div>
      ),
      sortBy: (row) => row.title,
    },
    {
      key: 'result',
      header: t('result'),
      width: 'minmax(0, 1.4fr)',
      cell: (row) => <Outcome job={row} />,
      sortBy: (row) => row.result,
    },
    {
      key: 'took',
      header: t('took'),
      width: '80px',
      align: 'right',
      cell: ({ duration_ms: ms }) => (ms === null ? <span className="soft">–</span> : took(ms)),
      sortBy: (row) => row.duration_ms,
    },
    {
      key: 'last',
      header: t('last'),
      width: '110px',
      align: 'right',
      cell: (row) => <Time at={row.started_at} />,
      sortBy: (row) => row.started_at,
    },
    {
      key: 'next',
      header: t('next'),
      width: '110px',
      align: 'right',
      cell: (row) => (row.next_at ? <Time at={row.next_at} /> : <span className="soft">{t('unknown')}</span>),
      sortBy: (row) => row.next_at,
    },
  ]
  if (canEdit) {
    columns.push({
      key: 'run',
      header: '',
      width: '90px',
      align: 'right',
      cell: (row) =>
        row.wanted_at ? (
          <span className="soft">{t('waiting')}</span>
        ) : (
          <Button
            size="compact-sm"
            variant="subtle"
            aria-label={`${t('run')}: ${row.title}`}
            disabled={row.result === 'running'}
            onClick={() => run.mutate(row.name)}
          >
            {t('run')}
          </Button>
        ),
    })
  }
  return (
    <Page title={t('title')} lead={t('lead')}>
      <RowList
        query={query}
        rowsOf={(jobs) => jobs.map((job): Row => ({ ...job, id: job.name }))}
        text="jobs:list"
        columns={columns}
        searchText={(row) => [row.name, row.title].join(' ')}
      />
    </Page>
  )
}

const took = (ms: number) => (ms < 10_000 ? `${ms} ms` : duration(ms / 1000))

/** When a job runs. */
function Rhythm({ job: { when, every_seconds: every } }: { job: Job }) {
  const { t } = useTranslation('jobs')
  if (when === 'night') return t('night')
  return t(when === 'boot' ? 'boot' : 'every', { time: duration(every) })
}

const tones: Record<Exclude<Job['result'], ''>, Tone> = {
  running: 'warn',
  ok: 'live',
  failed: 'bad',
  panicked: 'bad',
  overdue: 'bad',
}

function Outcome({ job: { result, error, detail } }: { job: Job }) {
  const { t } = useTranslation('jobs')
  if (result === '') return <Badge tone="off">{t('results.never')}</Badge>
  return (
    <div>
      <Badge tone={tones[result]} filled={result === 'panicked'}>
        {t(`results.${result}`)}
      </Badge>
      {error && (
        <div className={classes.note} title={detail}>
          {error}
        </div>
      )}
    </div>
  )
}
