import { Button, Chip, CloseButton, Kbd, TextInput } from '@mantine/core'
import { useDebouncedCallback, useHotkeys } from '@mantine/hooks'
import { IconPlus, IconSearch } from '@tabler/icons-react'
import { type UseQueryResult, useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useWindowVirtualizer } from '@tanstack/react-virtual'
import type { TFunction } from 'i18next'
import { type ReactNode, type RefObject, useEffect, useLayoutEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Resource } from '../../api/resource'
import { useCanEdit } from '../../api/session'
import { useDrafted, withNew } from '../change/draft'
import { Choice } from '../form/Choice'
import { Empty } from '../page/Empty'
import { Panel } from '../page/Page'
import { Loaded } from '../state/Loaded'
import { type Column, DataTable, virtualFrom } from './DataTable'
import tableClasses from './DataTable.module.css'
import { type Filter, grouped, type ListSearch, narrowed, nextSort, selectRows } from './list-logic'
import { useDraftMarks, useSecretMarks } from './marks'
import classes from './ResourceList.module.css'
import type SortableTable from './SortableTable'
import { rowBefore } from './useMove'

interface RowListProps<Q, R> {
  query: UseQueryResult<Q>
  /** The rows in an answer. */
  rowsOf: (answer: Q) => R[]
  /** Where its texts are, such as `ntp:pool`: title, emptyTitle, emptyText, create. */
  text: string
  columns: Column<R>[]
  filters?: Filter<R>[]
  /** The text to search in a row; missing if the gateway searches. */
  searchText?: (row: R) => string
  /** Rows without a path are not links. */
  rowLink?: (row: R) => string | undefined
  /** Rows link to another page, not to a drawer beside this list. */
  leaves?: boolean
  createLink?: string
  /** Shown next to the create button. */
  beside?: ReactNode
  /**
   * For ordered rows: how to move one behind another, and its name. The page passes the table along with its own code:
   * loading it later would replace a table that the user is using.
   */
  order?: { move: (id: string, after: string | null) => void; name: (row: R) => string; Table: typeof SortableTable }
  /** For grouped rows: one table per key, with its name and heading. */
  group?: { of: (row: R) => string; name: (key: string) => string; title?: (key: string) => ReactNode }
  /** For rows that can be selected: their names, and the actions for a selection. */
  bulk?: { name: (row: R) => string; actions: (rows: R[], onDone: () => void) => ReactNode }
  /** Shown below the last row. */
  end?: ReactNode
}

interface ResourceListProps<T, R> extends Omit<RowListProps<T[], R>, 'query' | 'rowsOf'> {
  resource: Pick<Resource<T>, 'kind' | 'list'>
  /** Converts the gateway's rows to those shown, for example by joining other data. */
  join?: (rows: T[]) => R[]
  /** The polling interval in milliseconds, for rows that change without an audit entry. */
  every?: number
}

/** A RowList of a resource, with the draft's new rows and marks. */
export function ResourceList<T, R extends { id: string } = T & { id: string }>(props: ResourceListProps<T, R>) {
  const { resource, join, every, ...list } = props
  const query = useQuery({ queryKey: [resource.kind], queryFn: resource.list, refetchInterval: every })
  const drafted = useDrafted()
  const columns = useDraftMarks(resource.kind, useSecretMarks(list.columns))
  const rowsOf = (rows: T[]) => {
    const all = withNew(rows, resource.kind, drafted)
    return join ? join(all) : (all as unknown as R[])
  }
  return <RowList {...list} columns={columns} query={query} rowsOf={rowsOf} />
}

/**
 * Every list of rows: search, filters and sort order in the address bar, keyboard control, and an empty state that
 * helps.
 */
export function RowList<Q, R extends { id: string }>(props: RowListProps<Q, R>) {
  const {
    query,
    rowsOf,
    text,
    columns,
    filters = [],
    searchText,
    rowLink,
    leaves,
    createLink,
    beside,
    order,
    group,
    bulk,
    end,
  } = props
  const { t } = useTranslation()
  const canEdit = useCanEdit()
  const navigate = useNavigate()
  const search = useSearch({ strict: false }) as ListSearch
  const searchField = useRef<HTMLInputElement>(null)
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())

  const change = (part: ListSearch) =>
    navigate({ to: '.', search: (old: ListSearch) => ({ ...old, ...part }), replace: true } as never)

  useHotkeys([
    ['/', () => searchField.current?.focus()],
    ['n', () => canEdit && createLink && navigate({ to: createLink })],
  ])

  const offered = filters.filter(({ options }) => options.length > 0)
  const severalChips = offered.filter(({ many }) => !many).length > 1
  const createButton = canEdit && createLink && (
    <div className={classes.create}>
      {beside}
      <Button component={Link} to={createLink} leftSection={<IconPlus size={16} />}>
        {t(`${text}.create`)}
      </Button>
    </div>
  )

  return (
    <Loaded query={query} height={240}>
      {(answer) => {
        const all = rowsOf(answer)
        if (all.length === 0 && !search.q) {
          return <Empty title={t(`${text}.emptyTitle`)} text={t(`${text}.emptyText`)} action={createButton} />
        }
        const rows = selectRows(all, { columns, filters, text: searchText ?? (() => search.q ?? ''), search })
        const off = narrowed(filters, search)
        const ids = all.map(({ id }) => id)
        const title = t(`${text}.title`)
        const groups = group ? [...grouped(rows, group.of)] : [['', rows] as const]
        // Rows that are filtered out do not belong to the selection.
        const meant = rows.filter(({ id }) => chosen.has(id))
        const table = {
          columns: bulk && canEdit ? [choosing(rows, chosen, setChosen, bulk.name, t), ...columns] : columns,
          rowKey: (row: R) => row.id,
          rowLink,
          leaves,
          sort: search.sort,
          onSort: (key: string) => change({ sort: nextSort(search.sort, key) }),
        }
        return (
          <Panel flush>
            <div className={classes.tools}>
              <SearchField field={searchField} value={search.q ?? ''} onChange={(q) => change({ q: q || undefined })} />
              {offered.map((filter) =>
                filter.many ? (
                  <Choice
                    key={filter.key}
                    size="xs"
                    className={classes.select}
                    aria-label={filter.label}
                    placeholder={filter.label}
                    data={filter.options}
                    value={search[filter.key] ?? null}
                    onChange={(value) => change({ [filter.key]: value ?? undefined })}
                    clearable
                  />
                ) : (
                  <fieldset key={filter.key} className={classes.filter}>
                    <legend className={severalChips ? classes.legend : 'visually-hidden'}>{filter.label}</legend>
                    {filter.options.map(({ value, label }) => (
                      <Chip
                        key={value}
                        size="xs"
                        variant="outline"
                        checked={search[filter.key] === value}
                        onChange={(on) => change({ [filter.key]: on ? value : undefined })}
                      >
                        {label}
                      </Chip>
                    ))}
                  </fieldset>
                ),
              )}
              <div className={classes.end}>
                <span className={classes.count}>
                  {rows.length === all.length
                    ? t('list.count', { count: all.length })
                    : t('list.matching', { count: rows.length, total: all.length })}
                </span>
                {createButton}
              </div>
            </div>
            {bulk && meant.length > 0 && (
              <section className={classes.bulk} aria-label={t('bulk.label')}>
                <span>{t('bulk.chosen', { count: meant.length })}</span>
                {bulk.actions(meant, () => setChosen(new Set()))}
              </section>
            )}
            {order && canEdit && off && rows.length > 0 && <p className={classes.hint}>{t('order.why')}</p>}
            {rows.length === 0 ? (
              <p className={classes.nothing}>{t('list.nothing')}</p>
            ) : (
              <Groups groups={groups}>
                {(key, members) => {
                  const part = { ...table, rows: members, label: group ? `${title}: ${group.name(key)}` : title }
                  return (
                    <>
                      {group && <h2 className={classes.group}>{group.title?.(key) ?? group.name(key)}</h2>}
                      {order && canEdit ? (
                        <order.Table
                          {...part}
                          onPlace={(id, place) => {
                            const own = members.map((row) => row.id)
                            order.move(id, rowBefore(ids, own, id, place))
                          }}
                          rowName={order.name}
                          off={off}
                        />
                      ) : (
                        <DataTable {...part} />
                      )}
                    </>
                  )
                }}
              </Groups>
            )}
            {end}
          </Panel>
        )
      }}
    </Loaded>
  )
}

/** The column of checkboxes, with one for all rows shown. */
function choosing<R extends { id: string }>(
  rows: readonly R[],
  chosen: ReadonlySet<string>,
  onChosen: (ids: ReadonlySet<string>) => void,
  name: (row: R) => string,
  t: TFunction,
): Column<R> {
  const all = rows.every(({ id }) => chosen.has(id))
  return {
    key: 'chosen',
    header: t('bulk.choose'),
    head: (
      <input
        type="checkbox"
        className={tableClasses.tick}
        aria-label={t('bulk.all')}
        checked={all}
        ref={(box) => {
          if (box) box.indeterminate = !all && rows.some(({ id }) => chosen.has(id))
        }}
        onChange={() => onChosen(new Set(all ? [] : rows.map(({ id }) => id)))}
      />
    ),
    width: '16px',
    cell: (row) => (
      <input
        type="checkbox"
        className={tableClasses.tick}
        aria-label={t('bulk.one', { name: name(row) })}
        checked={chosen.has(row.id)}
        onChange={(event) => {
          const next = new Set(chosen)
          if (event.currentTarget.checked) next.add(row.id)
          else next.delete(row.id)
          onChosen(next)
        }}
      />
    ),
  }
}

interface SearchFieldProps {
  field: RefObject<HTMLInputElement | null>
  value: string
  onChange: (value: string) => void
}

/** The field shows every key at once, but searching thousands of rows waits for a pause. */
function SearchField({ field, value, onChange }: SearchFieldProps) {
  const { t } = useTranslation()
  const [typed, setTyped] = useState(value)
  const settle = useDebouncedCallback(onChange, 120)
  // Another URL has another search. While the user types, the URL lags behind, so ignore it.
  useEffect(() => {
    if (document.activeElement !== field.current) setTyped(value)
  }, [value, field])
  const put = (next: string) => {
    setTyped(next)
    settle(next)
  }
  return (
    <TextInput
      ref={field}
      className={classes.search}
      aria-label={t('list.search')}
      placeholder={t('list.searchHint')}
      leftSection={<IconSearch size={15} aria-hidden />}
      rightSection={
        typed ? (
          <CloseButton size="sm" aria-label={t('list.clear')} onClick={() => put('')} />
        ) : (
          <Kbd size="xs" className={classes.key} aria-hidden>
            /
          </Kbd>
        )
      }
      value={typed}
      onChange={(event) => put(event.currentTarget.value)}
    />
  )
}

interface GroupsProps<R> {
  groups: (readonly [key: string, members: R[]])[]
  children: (key: string, members: R[]) => ReactNode
}

/** The tables of a list below each other. If they have many rows in all, only visible tables are drawn. */
function Groups<R>({ groups, children }: GroupsProps<R>) {
  const rows = groups.reduce((sum, [, members]) => sum + members.length, 0)
  if (rows > virtualFrom) return <VirtualGroups groups={groups}>{children}</VirtualGroups>
  return groups.map(([key, members]) => <div key={key}>{children(key, members)}</div>)
}

function VirtualGroups<R>({ groups, children }: GroupsProps<R>) {
  const box = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  const virtualizer = useWindowVirtualizer({
    count: groups.length,
    // Heading, table head and rows.
    estimateSize: (index) => 75 + 37 * (groups[index]?.[1].length ?? 0),
    getItemKey: (index) => groups[index]?.[0] ?? index,
    overscan: 3,
    scrollMargin: top,
  })
  useLayoutEffect(() => {
    if (box.current) setTop(Math.round(box.current.getBoundingClientRect().top + window.scrollY))
  }, [])
  return (
    <div ref={box} className={classes.groups} style={{ height: virtualizer.getTotalSize() }}>
      {virtualizer.getVirtualItems().map(({ index, key, start }) => {
        const [name, members] = groups[index] as GroupsProps<R>['groups'][number]
        return (
          <div
            key={key}
            ref={virtualizer.measureElement}
            data-index={index}
            style={{ transform: `translateY(${start - top}px)` }}
          >
            {children(name, members)}
          </div>
        )
      })}
    </div>
  )
}
