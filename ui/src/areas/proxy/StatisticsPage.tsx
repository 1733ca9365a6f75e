import './texts'
import { Button } from '@mantine/core'
import { IconRefresh } from '@tabler/icons-react'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { answer, http, unwrap } from '../../api/client'
import { useCanEdit } from '../../api/session'
import type { ProxyStats } from '../../api/types'
import { optionalText } from '../../i18n/i18n'
import { confirm } from '../../kit/change/confirm'
import { type Column, DataTable } from '../../kit/list/DataTable'
import { Facts, Page, Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { toast } from '../../kit/state/toast'
import { bytes, count, duration } from '../../kit/text/format'
import { paths } from '../../paths'
import { arranged, healthOfStatus, type Stat, statsQuery, whole } from './health'
import { CheckWords, HealthBadge } from './marks'
import classes from './Proxy.module.css'
import { Traffic } from './Traffic'
import { useBackends } from './useSites'

type Frontend = ProxyStats['frontends'][number]

/** The proxy's live statistics on one page. */
export default function StatisticsPage() {
  const { t } = useTranslation('proxy')
  return (
    <Page title={t('stats.title')} lead={t('stats.lead')} actions={<Reload />}>
      <Able />
      <Traffic />
      <Tables />
    </Page>
  )
}

function Reload() {
  const { t } = useTranslation('proxy')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  if (!canEdit) return null
  const ask = () =>
    confirm({
      title: t('reload.title'),
      text: t('reload.text'),
      verb: t('reload.verb'),
      act: async () => {
        const { value } = await answer(http.POST('/system/proxy-reload'))
        if (value.last_error) throw new Error(value.last_error)
      },
    }).then((yes) => {
      if (!yes) return
      toast('live', t('reload.done'))
      void queries.invalidateQueries({ queryKey: ['proxy'] })
    })
  return (
    <Button variant="default" leftSection={<IconRefresh size={16} aria-hidden />} onClick={ask}>
      {t('reload.button')}
    </Button>
  )
}

/** What the proxy supports, and who serves the console. */
function Able() {
  const { t } = useTranslation('proxy')
  // Used to hide an error that the tables already show.
  const stats = useQuery(statsQuery)
  const query = useQuery({
    queryKey: ['proxy', 'status'],
    queryFn: () => unwrap(http.GET('/proxy/status')),
    refetchInterval: 10_000,
  })
  return (
    <Panel title={t('status.title')} aside={<Link to={paths.component('reverse-proxy')}>{t('status.config')}</Link>}>
      <Loaded query={query} height={60}>
        {(now) => (
          <div className={classes.chart}>
            {now.error && now.error !== stats.data?.error && (
              <Notice tone="warn" title={t('unasked')}>
                {now.error}
              </Notice>
            )}
            <Facts
              facts={[
                [t('status.version'), now.version || <Badge tone="off">{t('common:state.not_installed')}</Badge>],
                [
                  t('status.http3'),
                  <span key="h" className={classes.stack}>
                    <Badge tone={now.http3 ? 'live' : 'off'}>{t(now.http3 ? 'common:on' : 'common:off')}</Badge>
                    {now.http3_why && <small className={classes.under}>{now.http3_why}</small>}
                  </span>,
                ],
                [
                  t('status.management'),
                  <span key="m" title={t(`status.managementHelp.${now.management}`)}>
                    {t(`status.managements.${now.management}`)}
                  </span>,
                ],
                [t('status.reloads'), count(now.reloads)],
                [t('status.runtime'), count(now.runtime_changes)],
                [
                  t('status.old'),
                  <span key="o" title={t('status.oldHelp')}>
                    {count(now.old_workers)}
                  </span>,
                ],
              ]}
            />
          </div>
        )}
      </Loaded>
    </Panel>
  )
}

function Tables() {
  const { t } = useTranslation('proxy')
  const { byId } = useBackends()
  const query = useQuery(statsQuery)
  const nameOf = (row: Stat) => byId.get(row.backend_id)?.name ?? row.name
  const number = <T,>(key: string, header: string, of: (row: T) => number, width = '84px'): Column<T> => ({
    key,
    header,
    width,
    align: 'right',
    cell: (row) => count(of(row)),
  })
  const volume = <T extends { bytes_in: number; bytes_out: number }>(): Column<T>[] => [
    { key: 'in', header: t('stats.in'), width: '84px', align: 'right', cell: (row) => bytes(row.bytes_in) },
    { key: 'out', header: t('stats.out'), width: '84px', align: 'right', cell: (row) => bytes(row.bytes_out) },
  ]
  const answers = <T extends Answers>(): Column<T> => ({
    key: 'answers',
    header: t('stats.answers'),
    width: '170px',
    align: 'right',
    cell: (row) => <Codes row={row} />,
  })
  const frontends: Column<Frontend>[] = [
    {
      key: 'name',
      header: t('stats.frontend'),
      cell: (row) => <span title={row.name}>{optionalText(`proxy:frontends.${row.name}`) ?? row.name}</span>,
    },
    number('rate', t('stats.rate'), (row) => row.req_rate, '70px'),
    number('total', t('stats.total'), (row) => row.req_tot),
    number('sessions', t('stats.sessions'), (row) => row.sessions, '70px'),
    number('max', t('stats.most'), (row) => row.max_sessions, '110px'),
    ...volume<Frontend>(),
    answers(),
  ]
  const backends: Column<Stat>[] = [
    {
      key: 'name',
      header: t('stats.backend'),
      width: 'minmax(0, 1.6fr)',
      cell: (row) =>
        row.server === whole ? (
          row.backend_id ? (
            <Link to={paths.backend(row.backend_id)}>{nameOf(row)}</Link>
          ) : (
            row.name
          )
        ) : (
          <span className={classes.indent}>{row.server}</span>
        ),
    },
    {
      key: 'status',
      header: t('backend.health'),
      width: 'minmax(130px, 1fr)',
      cell: (row) => (
        <span className={classes.stack}>
          <HealthBadge health={healthOfStatus(row.status)} />
          <CheckWords stat={row} />
        </span>
      ),
    },
    {
      key: 'since',
      header: t('stats.since'),
      width: '84px',
      align: 'right',
      cell: (row) => duration(row.last_change_seconds),
    },
    number('rate', t('stats.rate'), (row) => row.req_rate, '70px'),
    number('total', t('stats.total'), (row) => row.req_tot),
    number('sessions', t('stats.sessions'), (row) => row.sessions, '70px'),
    ...volume<Stat>(),
    answers(),
  ]
  return (
    <Loaded query={query} height={240}>
      {(stats) =>
        stats.error ? (
          <Notice tone="warn" title={t('unasked')}>
            {stats.error}
          </Notice>
        ) : (
          <>
            <Panel title={t('stats.frontends')} flush>
              {stats.frontends.length === 0 ? (
                <Notice tone="off">{t('stats.nothing')}</Notice>
              ) : (
                <DataTable
                  label={t('stats.frontends')}
                  columns={frontends}
                  rows={stats.frontends}
                  rowKey={(row) => row.name}
                />
              )}
            </Panel>
            <Panel title={t('stats.backends')} flush>
              {stats.backends.length === 0 ? (
                <Notice tone="off">{t('stats.nothing')}</Notice>
              ) : (
                <DataTable
                  label={t('stats.backends')}
                  columns={backends}
                  rows={arranged(stats.backends, nameOf)}
                  rowKey={(row) => `${row.name} ${row.server}`}
                />
              )}
            </Panel>
          </>
        )
      }
    </Loaded>
  )
}

type Answers = Pick<Stat, 'responses_2xx' | 'responses_4xx' | 'responses_5xx'>

/** Responses by class, with server errors highlighted. */
function Codes({ row }: { row: Answers }) {
  const { t } = useTranslation('proxy')
  return (
    <span className={classes.codes} title={t('stats.answersHelp')}>
      {count(row.responses_2xx)} / {count(row.responses_4xx)} /{' '}
      <span data-bad={row.responses_5xx > 0 || undefined}>{count(row.responses_5xx)}</span>
    </span>
  )
}
