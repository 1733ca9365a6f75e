import './texts'
import { Button } from '@mantine/core'
import { IconPlayerPause, IconPlayerPlay } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { useSearch } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import { DataTable } from '../../kit/list/DataTable'
import type { ListSearch } from '../../kit/list/list-logic'
import { Page, Panel } from '../../kit/page/Page'
import { LiveMark } from '../../kit/state/LiveMark'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { useStream } from '../../kit/state/useStream'
import { count } from '../../kit/text/format'
import classes from './Firewall.module.css'
import { LogFilters } from './LogFilters'
import { useLogColumns } from './log-columns'
import { logQuery, logStream } from './log-logic'

/** The log of the packet filter, live. The gateway filters it. */
export default function LogPage() {
  const { t } = useTranslation('firewall')
  const search = useSearch({ strict: false }) as ListSearch
  const wanted = JSON.stringify(logQuery(search))
  const stream = useMemo(() => logStream(JSON.parse(wanted)), [wanted])
  const live = useStream(stream)
  const [frozen, setFrozen] = useState<typeof live | null>(null)
  const shown = frozen ?? live
  const events = useMemo(() => shown.items.toReversed(), [shown.items])
  const columns = useLogColumns()
  // A refused stream gives no reason; a plain request with the same filters does.
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
