import { Button, Chip, CloseButton, TextInput } from '@mantine/core'
import { useHotkeys } from '@mantine/hooks'
import { IconPlus, IconSearch } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useRef } from 'react'
import { useTranslation } from 'react-i18next'
import type { Resource } from '../api/resource'
import { useCanEdit } from '../app/session'
import { type Column, DataTable } from './DataTable'
import { Empty } from './Empty'
import { Loaded } from './Loaded'
import { type Filter, type ListSearch, nextSort, selectRows } from './list-logic'
import { Panel } from './Page'
import classes from './ResourceList.module.css'

interface ResourceListProps<T> {
  resource: Resource<T>
  /** Where its texts are, such as `ntp:pool`: title, emptyTitle, emptyText, create. */
  text: string
  columns: Column<T>[]
  filters?: Filter<T>[]
  /** What the search looks through. */
  searchText: (row: T) => string
  rowLink: (row: T) => string
  createLink: string
}

/** Every list of a resource: search, filters and sort in the address, keyboard, an empty state that helps. */
export function ResourceList<T extends { id: string }>(props: ResourceListProps<T>) {
  const { resource, text, columns, filters = [], searchText, rowLink, createLink } = props
  const { t } = useTranslation()
  const canEdit = useCanEdit()
  const navigate = useNavigate()
  const search = useSearch({ strict: false }) as ListSearch
  const query = useQuery({ queryKey: [resource.kind], queryFn: resource.list })
  const searchField = useRef<HTMLInputElement>(null)

  const change = (part: ListSearch) =>
    navigate({ to: '.', search: (old: ListSearch) => ({ ...old, ...part }), replace: true } as never)

  useHotkeys([
    ['/', () => searchField.current?.focus()],
    ['n', () => canEdit && navigate({ to: createLink })],
  ])

  const createButton = canEdit && (
    <Button component={Link} to={createLink} leftSection={<IconPlus size={16} />}>
      {t(`${text}.create`)}
    </Button>
  )

  return (
    <Loaded query={query} height={240}>
      {(all) => {
        if (all.length === 0) {
          return <Empty title={t(`${text}.emptyTitle`)} text={t(`${text}.emptyText`)} action={createButton} />
        }
        const rows = selectRows(all, { columns, filters, text: searchText, search })
        return (
          <Panel flush>
            <div className={classes.tools}>
              <TextInput
                ref={searchField}
                className={classes.search}
                aria-label={t('list.search')}
                placeholder={t('list.searchHint')}
                leftSection={<IconSearch size={15} aria-hidden />}
                rightSection={
                  search.q && (
                    <CloseButton size="sm" aria-label={t('list.clear')} onClick={() => change({ q: undefined })} />
                  )
                }
                value={search.q ?? ''}
                onChange={(event) => change({ q: event.currentTarget.value || undefined })}
              />
              {filters.map((filter) => (
                <fieldset key={filter.key} className={classes.filter}>
                  <legend className="visually-hidden">{filter.label}</legend>
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
              ))}
              <span className={classes.count}>
                {rows.length === all.length
                  ? t('list.count', { count: all.length })
                  : t('list.matching', { count: rows.length, total: all.length })}
              </span>
              {createButton}
            </div>
            {rows.length === 0 ? (
              <p className={classes.nothing}>{t('list.nothing')}</p>
            ) : (
              <DataTable
                label={t(`${text}.title`)}
                columns={columns}
                rows={rows}
                rowKey={(row) => row.id}
                rowLink={rowLink}
                sort={search.sort}
                onSort={(key) => change({ sort: nextSort(search.sort, key) })}
              />
            )}
          </Panel>
        )
      }}
    </Loaded>
  )
}
