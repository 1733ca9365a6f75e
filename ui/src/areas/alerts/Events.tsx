import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useParams } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { useCanEdit } from '../../api/session'
import type { AlertEvent } from '../../api/types'
import { type Column, DataTable } from '../../kit/list/DataTable'
import { RowList } from '../../kit/list/ResourceList'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { Facts, Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Notice, type Tone } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { exactTime } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import classes from './Alerts.module.css'
import { SeverityBadge, severities } from './marks'
import { eventsQuery, kindsQuery, openQuery } from './resources'

/** Open alerts, and past events. */
export default function Events() {
  return (
    <>
      <Open />
      <History />
      <Outlet />
    </>
  )
}

function Open() {
  const { t } = useTranslation('alerts')
  const query = useQuery(openQuery)
  return (
    <Panel title={t('open.title')} flush>
      <Loaded query={query} height={60}>
        {(rows) =>
          rows.length === 0 ? (
            <p className={classes.none}>{t('open.none')}</p>
          ) : (
            <DataTable
              label={t('open.title')}
              rows={rows}
              rowKey={(row) => `${row.kind} ${row.key}`}
              columns={[
                { key: 'subject', header: t('open.subject'), cell: (row) => row.subject },
                {
                  key: 'message',
                  header: t('open.message'),
                  width: 'minmax(0, 2fr)',
                  cell: (row) => row.message.split('\n', 1)[0],
                },
                {
                  key: 'severity',
                  header: t('open.severity'),
                  width: '110px',
                  cell: (row) => <SeverityBadge severity={row.severity} />,
                },
                {
                  key: 'since',
                  header: t('open.since'),
                  width: '110px',
                  align: 'right',
                  cell: (row) => <Time at={row.since} />,
                },
              ]}
            />
          )
        }
      </Loaded>
    </Panel>
  )
}

function History() {
  const { t } = useTranslation('alerts')
  const query = useQuery(eventsQuery)
  const columns: Column<AlertEvent>[] = [
    {
      key: 'subject',
      header: t('event.subject'),
      cell: (row) => row.subject,
      sortBy: (row) => row.subject,
    },
    {
      key: 'message',
      header: t('event.message'),
      width: 'minmax(0, 2fr)',
      cell: (row) => row.message.split('\n', 1)[0],
    },
    {
      key: 'severity',
      header: t('event.severity'),
      width: '110px',
      cell: (row) => <SeverityBadge {...row} />,
      sortBy: (row) => severities.indexOf(row.severity),
    },
    { key: 'sent', header: t('event.sent'), width: '100px', cell: (row) => <Sent event={row} /> },
    {
      key: 'at',
      header: t('event.at'),
      width: '110px',
      align: 'right',
      cell: (row) => <Time at={row.created_at} />,
      sortBy: (row) => row.created_at,
    },
  ]
  const kinds = [...new Set((query.data ?? []).map(({ kind }) => kind))].sort()
  return (
    <RowList
      query={query}
      rowsOf={(rows) => rows}
      text="alerts:event"
      columns={columns}
      filters={[
        {
          key: 'severity',
          label: t('event.severity'),
          options: severities.map((value) => ({ value, label: t(`severity.${value}`) })),
          of: ({ severity }) => severity,
        },
        {
          key: 'kind',
          label: t('event.kind'),
          options: kinds.map((value) => ({ value, label: value })),
          of: ({ kind }) => kind,
        },
      ]}
      searchText={({ kind, subject, message }) => [kind, subject, message].join(' ')}
      rowLink={({ id }) => paths.alertEvent(id)}
      end={query.data?.length === 200 && <p className={classes.none}>{t('event.end')}</p>}
    />
  )
}

/** How many of the channels got the alert. */
function Sent({ event: { sent_to: sent, muted } }: { event: AlertEvent }) {
  const { t } = useTranslation('alerts')
  if (muted) return <span className="soft">{t('event.mutedShort')}</span>
  if (sent.length === 0) return <span className="soft">{t('event.noOne')}</span>
  const ok = sent.filter(({ result }) => result === 'ok').length
  const wrong = sent.some(({ result }) => result === 'error')
  const waiting = sent.some(({ result }) => result === 'waiting')
  if (waiting) return <Badge tone="warn">{t('event.waiting')}</Badge>
  return <Badge tone={wrong ? 'bad' : 'live'}>{t('event.some', { ok, count: sent.length })}</Badge>
}

const resultTones: Record<AlertEvent['sent_to'][number]['result'], Tone> = {
  ok: 'live',
  error: 'bad',
  waiting: 'warn',
  skipped: 'off',
}

/** One alert: what it means, and whether each channel got it. */
export function Detail() {
  const { t } = useTranslation('alerts')
  const { id } = useParams({ strict: false }) as { id: string }
  const query = useQuery(eventsQuery)
  const kinds = useQuery(kindsQuery)
  const canEdit = useCanEdit()
  const found = query.data?.find((event) => event.id === id)
  const about = kinds.data?.find(({ kind }) => kind === found?.kind)
  return (
    <DetailDrawer title={found?.subject ?? t('event.detail')} back={paths.alerts}>
      <Loaded query={query} height={240}>
        {() =>
          found ? (
            <div className={classes.detail}>
              <SeverityBadge {...found} />
              <p className={classes.message}>{found.message}</p>
              <Facts
                facts={[
                  [
                    t('event.kind'),
                    <span key="kind" className="mono">
                      {found.kind}
                    </span>,
                  ],
                  [t('event.meaning'), about?.meaning ?? '–'],
                  [t('event.at'), exactTime(found.created_at)],
                ]}
              />
              <section aria-label={t('event.channels')}>
                <h3>{t('event.channels')}</h3>
                {found.sent_to.length === 0 && (
                  <p className="soft">{t(found.muted ? 'event.muted' : 'event.noChannels')}</p>
                )}
                <ul className={classes.channels}>
                  {found.sent_to.map((sent) => (
                    <li key={sent.channel_id}>
                      <span>{sent.channel}</span>
                      <Badge tone={resultTones[sent.result]}>{t(`event.results.${sent.result}`)}</Badge>
                      <span className="soft">
                        {t('event.attempts', { count: sent.attempts })}
                        {sent.digest && ` · ${t('event.digest')}`}
                      </span>
                      {sent.error && <div className={classes.cause}>{sent.error}</div>}
                    </li>
                  ))}
                </ul>
              </section>
              {canEdit && about?.mutable && (
                <Button
                  component={Link}
                  to={paths.alertMuteNew}
                  search={{ kind: found.kind } as never}
                  variant="default"
                  size="compact-sm"
                >
                  {t('event.mute')}
                </Button>
              )}
            </div>
          ) : (
            <Notice tone="off">{t('event.gone')}</Notice>
          )
        }
      </Loaded>
    </DetailDrawer>
  )
}
