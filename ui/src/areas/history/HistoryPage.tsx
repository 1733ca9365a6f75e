import './texts'
import { Button, Select, TextInput } from '@mantine/core'
import { useDebouncedCallback } from '@mantine/hooks'
import { IconArrowBackUp } from '@tabler/icons-react'
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, Outlet, useNavigate, useSearch } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { useCanEdit } from '../../api/session'
import type { ChangeSet } from '../../api/types'
import i18n from '../../i18n/i18n'
import { kinds } from '../../kit/change/kinds'
import { deedsOf, kindName } from '../../kit/change/words'
import { DataTable } from '../../kit/list/DataTable'
import type { ListSearch } from '../../kit/list/list-logic'
import { nextPage } from '../../kit/list/next-page'
import { Periods } from '../../kit/list/Periods'
import { Page, Panel } from '../../kit/page/Page'
import { componentName } from '../../kit/state/condition'
import { Loaded } from '../../kit/state/Loaded'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import { FateBadge } from './FateBadge'
import { fateOf } from './fate'
import classes from './History.module.css'
import { isFiltered, searchQuery } from './search'

const pageSize = 200
const texts = ['actor', 'reason'] as const
const states = ['waiting', 'confirmed', 'taken_back']

/** Every change set, newest first. */
export default function HistoryPage() {
  const { t } = useTranslation('history')
  const canEdit = useCanEdit()
  const search = useSearch({ strict: false }) as ListSearch
  const query = useInfiniteQuery({
    queryKey: ['change-set', 'list', searchQuery(search)],
    queryFn: ({ pageParam }) =>
      unwrap(
        http.GET('/change-sets', {
          params: { query: { ...searchQuery(search), limit: pageSize, before: pageParam } },
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: ChangeSet[]) => (last.length === pageSize ? last.at(-1)?.id : undefined),
    placeholderData: (old) => old,
  })
  const sets = query.data?.pages.flat() ?? []
  return (
    <Page
      title={t('title')}
      lead={t('lead')}
      actions={
        canEdit && (
          <Button
            variant="default"
            leftSection={<IconArrowBackUp size={16} aria-hidden />}
            renderRoot={(props) => <Link to={paths.historyBack} search={true} {...props} />}
          >
            {t('back.open')}
          </Button>
        )
      }
    >
      <Panel title={t('sets')} flush>
        <Filters />
        <Loaded query={query as never} height={320}>
          {() => (
            <>
              {sets.length === 0 ? (
                <p className={classes.none}>{t(isFiltered(search) ? 'none' : 'empty')}</p>
              ) : (
                <Sets sets={sets} onEnd={nextPage(query)} />
              )}
            </>
          )}
        </Loaded>
      </Panel>
      <Outlet />
    </Page>
  )
}

function Sets({ sets, onEnd }: { sets: ChangeSet[]; onEnd: (() => void) | undefined }) {
  const { t } = useTranslation('history')
  return (
    <DataTable
      label={t('sets')}
      rows={sets}
      rowKey={(set) => set.id}
      rowLink={(set) => paths.changeSet(set.id)}
      onEnd={onEnd}
      columns={[
        { key: 'what', header: t('what'), width: 'minmax(0, 1.8fr)', cell: (set) => deedsOf(set.kinds) },
        {
          key: 'reason',
          header: t('reason'),
          width: 'minmax(0, 1.4fr)',
          cell: (set) => set.reason || <span className="soft">–</span>,
        },
        { key: 'actor', header: t('actor'), width: 'minmax(0, 1.1fr)', cell: (set) => set.actor },
        {
          key: 'state',
          header: t('state'),
          width: '120px',
          cell: (set) => (fateOf(set) === 'none' ? <span className="soft">–</span> : <FateBadge set={set} />),
        },
        { key: 'at', header: t('at'), width: '100px', align: 'right', cell: (set) => <Time at={set.created_at} /> },
      ]}
    />
  )
}

function Filters() {
  const { t } = useTranslation('history')
  const navigate = useNavigate()
  const search = useSearch({ strict: false }) as ListSearch
  const put = (part: ListSearch) =>
    void navigate({ to: '.', search: (old: ListSearch) => ({ ...old, ...part }), replace: true } as never)
  const later = useDebouncedCallback(put, 250)
  const components = Object.keys(i18n.t('component', { returnObjects: true }))
  const choices = {
    kind: kinds.map((value) => ({ value, label: kindName(value) })),
    component: components.map((value) => ({ value, label: componentName(value) })),
    state: states.map((value) => ({ value, label: t(`states.${value}`) })),
  }
  return (
    <form onSubmit={(event) => event.preventDefault()}>
      <div className={classes.filters}>
        {texts.map((name) => (
          <TextInput
            key={name}
            size="xs"
            label={t(name)}
            defaultValue={search[name] ?? ''}
            onChange={(event) => later({ [name]: event.currentTarget.value || undefined })}
          />
        ))}
        {Object.entries(choices).map(([name, data]) => (
          <Select
            key={name}
            size="xs"
            label={t(name)}
            placeholder={t('any')}
            data={data}
            value={search[name] ?? null}
            onChange={(value) => put({ [name]: value ?? undefined })}
            searchable={name !== 'state'}
            clearable
          />
        ))}
      </div>
      <Periods search={search} onPeriod={put} />
    </form>
  )
}
