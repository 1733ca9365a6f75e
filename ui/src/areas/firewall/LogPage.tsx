import './texts'
import { Button } from '@mantine/core'
import { IconPlayerPause, IconPlayerPlay, IconRoute, IconShieldPlus } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import { paths } from '../../app/paths'
import { useCanEdit } from '../../app/session'
import { type Column, DataTable } from '../../kit/DataTable'
import { bytes, count, exactTime } from '../../kit/format'
import { LiveMark } from '../../kit/LiveMark'
import type { ListSearch } from '../../kit/list-logic'
import { Notice } from '../../kit/Notice'
import { Page, Panel } from '../../kit/Page'
import { RowMenu } from '../../kit/RowMenu'
import { Badge } from '../../kit/StateBadge'
import { useStream } from '../../kit/useStream'
import { useBook, useUsage } from './book'
import classes from './Firewall.module.css'
import { LogFilters } from './LogFilters'
import { draftOf, logQuery, logStream, type Numbered, place, questionOf, type Surroundings } from './log-logic'
import { ActionBadge } from './marks'
import { rules } from './resources'

const timeOfDay = { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 } as const

/** What the packet filter logs, as it happens. The gateway filters; here is only shown what it sends. */
export default function LogPage() {
  const { t } = useTranslation('firewall')
  const search = useSearch({ strict: false }) as ListSearch
  const wanted = JSON.stringify(logQuery(search))
  const stream = useMemo(() => logStream(JSON.parse(wanted)), [wanted])
  const live = useStream(stream)
  const [frozen, setFrozen] = useState<typeof live | null>(null)
  const shown = frozen ?? live
  const events = useMemo(() => shown.items.toReversed(), [shown.items])
  const columns = useColumns()
  // A stream that is refused cannot say why; the same question asked once can.
  const check = useQuery({
    queryKey: ['firewall', 'log', wanted],
    queryFn: () =>
      unwrap(http.GET('/firewall/log', { params: { query: { ...logQuery(search), limit: 1 } as object } })),
    retry: false,
  })
  const newer = frozen ? live.items.filter(({ number }) => number > (frozen.items.at(-1)?.number ?? -1)).length : 0
  return (
    <Page title={t('log.title')} lead={t('log.lead')}>
      <Panel
        title={t('log.events')}
        aside={
          <span className={classes.action}>
            {live.dropped > 0 && (
              <Badge tone="warn">{t('log.dropped', { count: live.dropped, shown: count(live.dropped) })}</Badge>
            )}
            {frozen ? <Badge tone="off">{t('log.paused', { shown: count(newer) })}</Badge> : <LiveMark {...live} />}
            <Button
              size="compact-sm"
              variant="default"
              leftSection={frozen ? <IconPlayerPlay size={14} /> : <IconPlayerPause size={14} />}
              onClick={() => setFrozen(frozen ? null : live)}
            >
              {t(frozen ? 'log.resume' : 'log.pause')}
            </Button>
          </span>
        }
        flush
      >
        <LogFilters key={wanted === '{}' ? 'none' : 'some'} faults={check.isError ? toFault(check.error).fields : {}} />
        {check.isError && <Notice tone="bad">{toFault(check.error).message}</Notice>}
        {check.data?.error && (
          <Notice tone="warn" title={t('log.unreadable')}>
            {check.data.error}
          </Notice>
        )}
        {events.length === 0 ? (
          <p className={classes.nothing}>{t(wanted === '{}' ? 'log.none' : 'log.noMatch')}</p>
        ) : (
          <DataTable label={t('log.events')} columns={columns} rows={events} rowKey={(event) => String(event.number)} />
        )}
      </Panel>
    </Page>
  )
}

function useColumns(): Column<Numbered>[] {
  const { t } = useTranslation('firewall')
  const { data = [] } = useQuery({ queryKey: [rules.kind], queryFn: rules.list })
  const { zones, services } = useBook().lists
  const usage = useUsage()
  const around = () => ({ zones, services, usage })
  const names = useMemo(() => new Map(data.map(({ id, name }) => [id, name])), [data])
  return [
    {
      key: 'at',
      header: t('log.at'),
      width: '96px',
      cell: ({ timestamp }) => (
        <time dateTime={timestamp} title={exactTime(timestamp)}>
          {new Date(timestamp).toLocaleTimeString('en-GB', timeOfDay)}
        </time>
      ),
    },
    {
      key: 'action',
      header: t('rule.action.label'),
      width: '78px',
      cell: ({ action }) => <ActionBadge action={action} />,
    },
    {
      key: 'rule',
      header: t('log.rule'),
      cell: ({ rule_id: id, chain }) =>
        id ? (
          <Link to={paths.rule(id)}>{names.get(id) ?? id}</Link>
        ) : (
          <span className="soft">{t('log.default', { chain })}</span>
        ),
    },
    { key: 'proto', header: t('log.proto'), width: '54px', cell: ({ proto }) => <span className="mono">{proto}</span> },
    {
      key: 'source',
      header: t('rule.sections.src'),
      width: 'minmax(0, 1.3fr)',
      cell: ({ source, source_port: port }) => <span className="mono">{place(source, port)}</span>,
    },
    {
      key: 'destination',
      header: t('rule.sections.dst'),
      width: 'minmax(0, 1.3fr)',
      cell: ({ destination, destination_port: port }) => <span className="mono">{place(destination, port)}</span>,
    },
    {
      key: 'interface',
      header: t('log.interface'),
      width: 'minmax(0, 0.8fr)',
      cell: ({ interface: into, out_interface: out }) => (
        <span className="mono">{out ? `${into} → ${out}` : into || '–'}</span>
      ),
    },
    { key: 'size', header: t('log.size'), width: '64px', align: 'right', cell: ({ size }) => bytes(size) },
    { key: 'menu', header: '', width: '26px', cell: (event) => <EventMenu event={event} around={around} /> },
  ]
}

function EventMenu({ event, around }: { event: Numbered; around: () => Surroundings }) {
  const { t } = useTranslation('firewall')
  const navigate = useNavigate()
  const canEdit = useCanEdit()
  const makeRule = () => void navigate({ to: paths.ruleNew, state: { draft: draftOf(event, around()) } } as never)
  return (
    <RowMenu
      name={`${event.proto} ${event.source} → ${event.destination}`}
      items={() => [
        ...(canEdit ? [{ label: t('log.makeRule'), icon: IconShieldPlus, act: makeRule }] : []),
        {
          label: t('log.explain'),
          icon: IconRoute,
          act: () => void navigate({ to: paths.explain, search: questionOf(event) } as never),
        },
      ]}
    />
  )
}
