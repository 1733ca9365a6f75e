import { Button, Chip, SegmentedControl, TextInput } from '@mantine/core'
import { useDebouncedCallback } from '@mantine/hooks'
import { useInfiniteQuery } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { auditStream } from '../../api/streams'
import type { AuditEntry } from '../../api/types'
import type { ListSearch } from '../../kit/list/list-logic'
import { nextPage } from '../../kit/list/next-page'
import { Periods } from '../../kit/list/Periods'
import { Page, Panel } from '../../kit/page/Page'
import { LiveMark } from '../../kit/state/LiveMark'
import { FaultNotice } from '../../kit/state/Loaded'
import { useStream } from '../../kit/state/useStream'
import { localInput } from '../../kit/text/format'
import { paths } from '../../paths'
import classes from './Audit.module.css'
import { AuditList } from './AuditList'
import { ChangesView } from './ChangesView'
import { yesterday } from './changes'
import { EntryDrawer } from './EntryDrawer'
import { filters, newerEntries } from './live-entries'
import { isLogin } from './words'

const pageSize = 200

/** The views of the log: single entries, or the overall changes. */
const views = ['entries', 'changes'] as const

/** A time input has no zone and means local time; the API wants UTC. */
const toUtc = (local: string | undefined) => (local ? new Date(local).toISOString() : undefined)

export default function AuditPage() {
  const { t } = useTranslation('audit')
  const navigate = useNavigate()
  const search = useSearch({ strict: false }) as ListSearch
  const { id } = useParams({ strict: false })
  const live = useStream(auditStream)
  const query = useInfiniteQuery({
    queryKey: ['audit', search],
    queryFn: ({ pageParam }) =>
      unwrap(
        http.GET('/audit', {
          params: {
            query: {
              ...Object.fromEntries(filters.map((name) => [name, search[name]])),
              from: toUtc(search.from),
              to: toUtc(search.to),
              limit: pageSize,
              before: pageParam,
            },
          },
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: AuditEntry[]) => (last.length === pageSize ? last.at(-1)?.id : undefined),
  })
  const change = useDebouncedCallback((part: ListSearch) => {
    void navigate({ to: '.', search: (old: ListSearch) => ({ ...old, ...part }), replace: true } as never)
  }, 250)
  const found = query.data?.pages.flat() ?? []
  const all = [...newerEntries(live.items, found, search), ...found]
  const entries = search.logins === 'hide' ? all.filter((entry) => !isLogin(entry)) : all

  const view = search.view === 'changes' ? 'changes' : 'entries'
  const put = (part: ListSearch) =>
    void navigate({ to: paths.audit, search: (old: ListSearch) => ({ ...old, ...part }), replace: true } as never)

  return (
    <Page
      title={t('title')}
      lead={t('lead')}
      actions={
        <>
          <Button
            variant="default"
            onClick={() => put({ view: 'changes', from: localInput(yesterday(new Date()).getTime()), to: undefined })}
          >
            {t('changes.sinceYesterday')}
          </Button>
          <SegmentedControl
            size="xs"
            aria-label={t('views.label')}
            data={views.map((value) => ({ value, label: t(`views.${value}`) }))}
            value={view}
            onChange={(value) => put({ view: value === 'changes' ? value : undefined })}
          />
        </>
      }
    >
      <Panel title={t(view === 'entries' ? 'entries' : 'views.filters')} aside={<LiveMark {...live} />} flush>
        <form className={classes.filters} onSubmit={(event) => event.preventDefault()}>
          {filters.map((name) => (
            <TextInput
              key={name}
              size="xs"
              label={t(name === 'action' ? 'code' : name)}
              defaultValue={search[name] ?? ''}
              onChange={(event) => change({ [name]: event.currentTarget.value || undefined })}
            />
          ))}
        </form>
        <Periods search={search} onPeriod={put}>
          <Chip
            size="xs"
            variant="outline"
            checked={search.logins === 'hide'}
            onChange={(hide) => put({ logins: hide ? 'hide' : undefined })}
          >
            {t('hideLogins')}
          </Chip>
        </Periods>
        {query.isError && <FaultNotice fault={query.error} />}
        {view === 'entries' && query.data && <AuditList entries={entries} onEnd={nextPage(query)} />}
      </Panel>
      {view === 'changes' && <ChangesView newest={live.items.at(-1)?.id} />}
      {id && <EntryDrawer id={id} known={all.find((one) => one.id === id)} />}
    </Page>
  )
}
