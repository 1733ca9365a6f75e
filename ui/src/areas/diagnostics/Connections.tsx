import { Button, TextInput } from '@mantine/core'
import { useDebouncedCallback } from '@mantine/hooks'
import { IconRefresh } from '@tabler/icons-react'
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import { useCanEdit } from '../../api/session'
import type { Connection } from '../../api/types'
import { Choice } from '../../kit/form/Choice'
import { type Column, DataTable } from '../../kit/list/DataTable'
import type { ListSearch } from '../../kit/list/list-logic'
import { RowButton } from '../../kit/list/RowButton'
import { Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { bytes, count, duration } from '../../kit/text/format'
import { paths } from '../../paths'
import {
  connectionProtocols,
  connectionQuery,
  connectionStates,
  end,
  isFiltered,
  nameOf,
  rewritten,
} from './connection-logic'
import classes from './Diagnostics.module.css'

/** There may be hundreds of thousands of connections, so the gateway filters and pages them, and polling is slow. */
export default function Connections() {
  const { t } = useTranslation('diagnostics')
  const search = useSearch({ strict: false }) as ListSearch
  const query = useQuery({
    queryKey: ['diagnostics', 'connections', connectionQuery(search)],
    queryFn: () =>
      unwrap(http.GET('/diagnostics/connections', { params: { query: connectionQuery(search) as object } })),
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
    retry: false,
  })
  // The kernel only counts if told to. Without numbers, hide the column.
  const counted = query.data?.connections.some((row) => row.sent_packets + row.received_packets > 0) ?? false
  const columns = useColumns(counted)
  const { matching = 0, total = 0, next = '' } = query.data ?? {}
  return (
    <Panel
      title={t('connection.title')}
      aside={
        <span className={classes.aside}>
          {query.data && (
            <span className="soft">
              {isFiltered(search)
                ? t('connection.some', { matching: count(matching), total: count(total) })
                : t('connection.all', { total: count(total) })}
            </span>
          )}
          <Button
            size="compact-sm"
            variant="default"
            leftSection={<IconRefresh size={14} />}
            loading={query.isFetching}
            onClick={() => void query.refetch()}
          >
            {t('connection.refresh')}
          </Button>
        </span>
      }
      flush
    >
      <Filters key={isFiltered(search) ? 'some' : 'none'} faults={query.isError ? toFault(query.error).fields : {}} />
      <Loaded query={query} height={240}>
        {({ connections, error }) =>
          error ? (
            <Notice tone="warn">{error}</Notice>
          ) : connections.length === 0 ? (
            <p className={classes.nothing}>{t(isFiltered(search) ? 'connection.noMatch' : 'connection.none')}</p>
          ) : (
            <DataTable label={t('connection.title')} columns={columns} rows={connections} rowKey={({ id }) => id} />
          )
        }
      </Loaded>
      {(next || search.after) && (
        <div className={classes.more}>
          {search.after && <PageButton after={undefined} label={t('connection.first')} />}
          {next && <PageButton after={next} label={t('connection.next')} />}
        </div>
      )}
    </Panel>
  )
}

function PageButton({ after, label }: { after: string | undefined; label: string }) {
  return (
    <Button
      variant="default"
      size="compact-sm"
      renderRoot={(props) => (
        <Link
          to={paths.diagnosticsConnections}
          search={((old: ListSearch) => ({ ...old, after })) as never}
          {...props}
        />
      )}
    >
      {label}
    </Button>
  )
}

function useColumns(counted: boolean): Column<Connection>[] {
  const { t } = useTranslation('diagnostics')
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  return useMemo(() => {
    const traffic: Column<Connection> = {
      key: 'traffic',
      header: t('connection.traffic'),
      width: '170px',
      align: 'right',
      cell: (row) => (
        <span title={t('connection.packets', { sent: count(row.sent_packets), received: count(row.received_packets) })}>
          ↑ {bytes(row.sent_bytes)} ↓ {bytes(row.received_bytes)}
        </span>
      ),
    }
    const columns: Column<Connection>[] = [
      {
        key: 'protocol',
        header: t('connection.protocol'),
        width: '64px',
        cell: ({ protocol }) => <span className="mono">{protocol}</span>,
      },
      {
        key: 'state',
        header: t('connection.state'),
        width: '132px',
        cell: ({ state }) => <ConnectionState state={state} />,
      },
      {
        key: 'source',
        header: t('connection.source'),
        main: true,
        cell: (row) => <End from={end(row.source, row.source_port)} seen={rewritten(row)?.source} />,
      },
      {
        key: 'destination',
        header: t('connection.destination'),
        cell: (row) => <End from={end(row.destination, row.destination_port)} seen={rewritten(row)?.destination} />,
      },
      ...(counted ? [traffic] : []),
      {
        key: 'seconds',
        header: t('connection.seconds'),
        width: '96px',
        align: 'right',
        cell: ({ seconds }) => duration(seconds),
      },
    ]
    if (!canEdit) return columns
    return [
      ...columns,
      {
        key: 'end',
        header: t('connection.act'),
        width: '64px',
        align: 'right',
        cell: (row) => (
          <RowButton
            verb={t('connection.end')}
            name={nameOf(row)}
            question={{ title: t('connection.endTitle'), text: t('connection.endText', { name: nameOf(row) }) }}
            act={async () => {
              await unwrap(http.DELETE('/diagnostics/connections/{id}', { params: { path: { id: row.id } } }))
              await queries.invalidateQueries({ queryKey: ['diagnostics', 'connections'] })
            }}
            done={t('connection.ended')}
          />
        ),
      },
    ]
  }, [t, canEdit, queries, counted])
}

/** One end of a connection, and what NAT turns it into. */
function End({ from, seen }: { from: string; seen?: string | null }) {
  const { t } = useTranslation('diagnostics')
  return (
    <span className={`mono ${classes.end}`}>
      {from}
      {seen && <span className={classes.seen}>{t('connection.as', { end: seen })}</span>}
    </span>
  )
}

function ConnectionState({ state }: { state: string }) {
  const { t } = useTranslation('diagnostics')
  const lives = state === 'established' || state === 'replied'
  const begins = state.startsWith('syn') || state === 'unreplied'
  return <Badge tone={lives ? 'live' : begins ? 'warn' : 'off'}>{t(`connection.states.${state}`)}</Badge>
}

/** The filters. They are in the address bar, and the gateway applies them. */
function Filters({ faults }: { faults: Record<string, string> }) {
  const { t } = useTranslation('diagnostics')
  const navigate = useNavigate()
  const search = useSearch({ strict: false }) as ListSearch
  // A new filter starts at the first page.
  const change = (part: ListSearch) =>
    void navigate({
      to: '.',
      search: (old: ListSearch) => ({ ...old, ...part, after: undefined }),
      replace: true,
    } as never)
  const typed = useDebouncedCallback(change, 400)
  const select = (name: string, options: { value: string; label: string }[]) => (
    <Choice
      size="xs"
      label={t(`connection.${name}`)}
      data={options}
      value={search[name] ?? null}
      onChange={(value) => change({ [name]: value ?? undefined })}
      placeholder={t('connection.any')}
      clearable
      clearButtonProps={{ 'aria-label': t('connection.clear', { filter: t(`connection.${name}`) }) }}
      error={faults[name]}
    />
  )
  const text = (name: string, placeholder: string) => (
    <TextInput
      size="xs"
      label={t(`connection.${name}`)}
      placeholder={placeholder}
      classNames={{ input: 'mono' }}
      defaultValue={search[name] ?? ''}
      onChange={(event) => typed({ [name]: event.currentTarget.value.trim() || undefined })}
      error={faults[name]}
    />
  )
  return (
    <form className={classes.filters} onSubmit={(event) => event.preventDefault()}>
      {text('source', t('connection.network'))}
      {text('destination', t('connection.network'))}
      {text('port', t('connection.any'))}
      {select(
        'protocol',
        connectionProtocols.map((value) => ({ value, label: value })),
      )}
      {select(
        'state',
        connectionStates.map((value) => ({ value, label: t(`connection.states.${value}`) })),
      )}
    </form>
  )
}
