import './texts'
import { Button } from '@mantine/core'
import { IconPlayerPause, IconPlayerPlay, IconPlayerStop } from '@tabler/icons-react'
import { useInfiniteQuery } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { toFault } from '../../api/fault'
import type { LogEntry } from '../../api/types'
import { DataTable } from '../../kit/list/DataTable'
import type { ListSearch } from '../../kit/list/list-logic'
import { Page, Panel } from '../../kit/page/Page'
import { LiveMark } from '../../kit/state/LiveMark'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { useStream } from '../../kit/state/useStream'
import { count, exactTime, localInput } from '../../kit/text/format'
import { paths } from '../../paths'
import { EntryDrawer } from './EntryDrawer'
import { type Counted, Histogram } from './Histogram'
import { LogFilters } from './LogFilters'
import classes from './Logs.module.css'
import { useLogColumns, useSourceTitles } from './log-columns'
import { barsOf, isFiltered, logQuery, logStream, streamQuery } from './log-logic'
import { entriesQuery } from './resources'

/** The logs of everything on the gateway: searched or live. Filters and mode are in the address bar. */
export default function LogsPage() {
  const { t } = useTranslation('logs')
  const search = useSearch({ strict: false }) as ListSearch
  return (
    <Page title={t('title')} lead={t('lead')}>
      {search.live ? <Followed /> : <Searched />}
    </Page>
  )
}

function useChange() {
  const navigate = useNavigate()
  return (part: ListSearch) =>
    void navigate({ to: paths.logs, search: (old: ListSearch) => ({ ...old, ...part }) } as never)
}

function Searched() {
  const { t } = useTranslation('logs')
  const search = useSearch({ strict: false }) as ListSearch
  const change = useChange()
  const query = useInfiniteQuery(entriesQuery(logQuery(search)))
  const pages = query.data?.pages
  const entries = useMemo(() => pages?.flatMap((page) => page.entries) ?? [], [pages])
  const last = pages?.at(-1)
  return (
    <Panel
      title={t('entries')}
      aside={
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconPlayerPlay size={14} />}
          onClick={() => change({ live: '1', since: undefined, until: undefined })}
        >
          {t('live')}
        </Button>
      }
      flush
    >
      <LogFilters
        key={isFiltered(search) ? 'some' : 'none'}
        live={false}
        faults={query.isError ? toFault(query.error).fields : {}}
      />
      <Unreadable errors={last?.errors ?? []} />
      <Loaded query={query as never} height={320}>
        {() => (
          <>
            <Entries entries={entries} counted={query.hasNextPage ? 'newest' : 'all'} />
            {query.hasNextPage && (
              <div className={classes.more}>
                {last?.partial && (
                  <Notice tone="warn" title={t('partialTitle')}>
                    {last.searched_to ? t('partial', { time: exactTime(last.searched_to) }) : t('partialNone')}
                  </Notice>
                )}
                <Button variant="default" loading={query.isFetchingNextPage} onClick={() => query.fetchNextPage()}>
                  {t(last?.partial ? 'further' : 'older')}
                </Button>
              </div>
            )}
          </>
        )}
      </Loaded>
    </Panel>
  )
}

function Unreadable({ errors }: { errors: { source: string; error: string }[] }) {
  const { t } = useTranslation('logs')
  if (errors.length === 0) return null
  return (
    <div className={classes.notices}>
      <Notice tone="warn" title={t('unreadable')}>
        {errors.map(({ source, error }) => (
          <div key={source}>
            {source}: {error}
          </div>
        ))}
      </Notice>
    </div>
  )
}

function Followed() {
  const { t } = useTranslation('logs')
  const search = useSearch({ strict: false }) as ListSearch
  const change = useChange()
  const wanted = JSON.stringify(streamQuery(search))
  const stream = useMemo(() => logStream(JSON.parse(wanted)), [wanted])
  const live = useStream(stream)
  const [frozen, setFrozen] = useState<typeof live | null>(null)
  const shown = frozen ?? live
  const entries = useMemo(() => shown.items.toReversed(), [shown.items])
  const newer = useMemo(() => {
    if (!frozen) return 0
    const known = new Set(frozen.items.map(({ id }) => id))
    return live.items.filter(({ id }) => !known.has(id)).length
  }, [frozen, live.items])
  return (
    <Panel
      title={t('entries')}
      aside={
        <span className={classes.aside}>
          {frozen ? (
            <Badge tone="off">{t('paused', { count: newer, shown: count(newer) })}</Badge>
          ) : (
            <LiveMark {...live} />
          )}
          <Button
            size="compact-sm"
            variant="default"
            leftSection={frozen ? <IconPlayerPlay size={14} /> : <IconPlayerPause size={14} />}
            onClick={() => setFrozen(frozen ? null : live)}
          >
            {t(frozen ? 'resume' : 'pause')}
          </Button>
          <Button
            size="compact-sm"
            variant="default"
            leftSection={<IconPlayerStop size={14} />}
            onClick={() => change({ live: undefined })}
          >
            {t('stop')}
          </Button>
        </span>
      }
      flush
    >
      <LogFilters key={wanted === '{}' ? 'none' : 'some'} live faults={{}} />
      <Entries entries={entries} counted="shown" />
    </Panel>
  )
}

function Entries({ entries, counted }: { entries: readonly LogEntry[]; counted: Counted }) {
  const { t } = useTranslation('logs')
  const search = useSearch({ strict: false }) as ListSearch
  const { id } = useParams({ strict: false }) as { id?: string }
  const columns = useLogColumns()
  const titles = useSourceTitles()
  const change = useChange()
  const bars = useMemo(() => barsOf(entries), [entries])
  return (
    <>
      {bars.length > 1 && (
        <Histogram
          bars={bars}
          loaded={entries.length}
          counted={counted}
          onRange={(from, to) => change({ since: localInput(from), until: localInput(to), live: undefined })}
        />
      )}
      {entries.length === 0 ? (
        <p className={classes.nothing}>{t(isFiltered(search) ? 'noMatch' : 'none')}</p>
      ) : (
        <DataTable
          label={t('entries')}
          columns={columns}
          rows={entries}
          rowKey={(entry) => entry.id}
          rowLink={(entry) => paths.logEntry(entry.id)}
        />
      )}
      {id && <EntryDrawer entry={entries.find((one) => one.id === id)} titles={titles} />}
    </>
  )
}
