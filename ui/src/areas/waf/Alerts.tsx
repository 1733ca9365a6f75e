import { Button } from '@mantine/core'
import { useThrottledValue } from '@mantine/hooks'
import { IconPlayerPause, IconPlayerPlay } from '@tabler/icons-react'
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useSearch } from '@tanstack/react-router'
import { useEffect, useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import { useCanEdit } from '../../api/session'
import { confirm } from '../../kit/change/confirm'
import { DataTable } from '../../kit/list/DataTable'
import type { ListSearch } from '../../kit/list/list-logic'
import { Panel } from '../../kit/page/Page'
import { LiveMark } from '../../kit/state/LiveMark'
import { Loaded } from '../../kit/state/Loaded'
import { Badge } from '../../kit/state/StateBadge'
import { toast } from '../../kit/state/toast'
import { useStream } from '../../kit/state/useStream'
import { count } from '../../kit/text/format'
import { paths } from '../../paths'
import { AlertFilters } from './AlertFilters'
import { useAlertColumns } from './alert-columns'
import { alertQuery, isFiltered, pageSize, requestsOf } from './alert-logic'
import { alertStream } from './resources'
import classes from './Waf.module.css'

/** The minimum interval between reloads of the list in milliseconds, however many attacks there are. */
const calm = 1000

/**
 * Requests that matched a rule, live. The gateway filters them: the stream only triggers a reload. A page of older ones
 * does not change.
 */
export default function Alerts() {
  const { t } = useTranslation('waf')
  const search = useSearch({ strict: false }) as ListSearch
  const live = useStream(alertStream)
  /** The newest record when the list was paused. */
  const [pausedAt, setPausedAt] = useState<string | null>(null)
  const query = useQuery({
    queryKey: ['waf', 'alerts', alertQuery(search)],
    queryFn: () =>
      unwrap(http.GET('/waf/alerts', { params: { query: { ...alertQuery(search), limit: pageSize } as object } })),
    placeholderData: keepPreviousData,
    retry: false,
  })
  const newest = useThrottledValue(live.items.at(-1)?.id, calm)
  const { refetch } = query
  const still = pausedAt !== null || search.before !== undefined
  useEffect(() => {
    if (newest !== undefined && !still) void refetch()
  }, [newest, still, refetch])
  const columns = useAlertColumns()
  const rows = useMemo(() => requestsOf(query.data ?? []), [query.data])
  const waiting = live.items.filter(({ id }) => pausedAt !== null && id > pausedAt).length
  const last = query.data?.length === pageSize ? query.data.at(-1) : undefined
  return (
    <>
      <Panel
        title={t('alert.title')}
        aside={
          <span className={classes.aside}>
            {search.before ? <Badge tone="off">{t('alert.notNewest')}</Badge> : null}
            {pausedAt !== null && <Badge tone="off">{t('alert.paused', { shown: count(waiting) })}</Badge>}
            {!still && <LiveMark {...live} />}
            {!search.before && (
              <Button
                size="compact-sm"
                variant="default"
                leftSection={pausedAt === null ? <IconPlayerPause size={14} /> : <IconPlayerPlay size={14} />}
                onClick={() => setPausedAt(pausedAt === null ? (live.items.at(-1)?.id ?? '') : null)}
              >
                {t(pausedAt === null ? 'alert.pause' : 'alert.resume')}
              </Button>
            )}
            <Purge />
          </span>
        }
        flush
      >
        <AlertFilters
          key={isFiltered(search) ? 'some' : 'none'}
          faults={query.isError ? toFault(query.error).fields : {}}
        />
        <Loaded query={query} height={240}>
          {() =>
            rows.length === 0 ? (
              <p className={classes.nothing}>{t(isFiltered(search) ? 'alert.noMatch' : 'alert.none')}</p>
            ) : (
              <DataTable
                label={t('alert.title')}
                columns={columns}
                rows={rows}
                rowKey={({ id }) => id}
                rowLink={({ id }) => paths.wafAlert(id)}
              />
            )
          }
        </Loaded>
        {(last || search.before) && (
          <div className={classes.more}>
            {search.before && <PageButton before={undefined} label={t('alert.newest')} />}
            {last && <PageButton before={last.id} label={t('alert.older')} />}
          </div>
        )}
      </Panel>
      <Outlet />
    </>
  )
}

function PageButton({ before, label }: { before: string | undefined; label: string }) {
  return (
    <Button
      variant="default"
      size="compact-sm"
      renderRoot={(props) => (
        <Link to={paths.wafAlerts} search={((old: ListSearch) => ({ ...old, before })) as never} {...props} />
      )}
    >
      {label}
    </Button>
  )
}

function Purge() {
  const { t } = useTranslation('waf')
  const queries = useQueryClient()
  if (!useCanEdit()) return null
  const ask = () =>
    confirm({
      title: t('alert.purgeTitle'),
      text: t('alert.purgeText'),
      verb: t('alert.purge'),
      danger: true,
      act: async () => {
        const { deleted } = await unwrap(http.DELETE('/waf/alerts'))
        toast('live', t('alert.purged', { count: deleted, number: count(deleted) }))
        await queries.invalidateQueries({ queryKey: ['waf'] })
      },
    })
  return (
    <Button size="compact-sm" variant="subtle" color="red" onClick={ask}>
      {t('alert.purge')}
    </Button>
  )
}
