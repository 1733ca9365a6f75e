import './texts'
import { Button, Checkbox, Select } from '@mantine/core'
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { answer, http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import type { ClusterStatus, DifferenceRow } from '../../api/types'
import { type FieldChange, FieldChanges } from '../../kit/change/FieldChanges'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { FaultNotice, Loaded } from '../../kit/state/Loaded'
import { Notice, type Tone } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { toastApplied } from '../../kit/state/toast'
import { exactTime } from '../../kit/text/format'
import { paths } from '../../paths'
import classes from './Cluster.module.css'
import { differencesQuery, statusQuery } from './resources'

const tones: Record<DifferenceRow['state'], Tone> = { missing: 'bad', differs: 'warn', same: 'live', record: 'off' }

type Row = Record<string, unknown> | null

/** What applying a row again would change. */
function changesOf({ then, now }: DifferenceRow): FieldChange[] {
  const was = (then ?? {}) as NonNullable<Row>
  const is = now as Row
  return Object.keys(was)
    .filter((field) => !['id', 'created_at', 'updated_at'].includes(field))
    .map((field) => ({ field, before: is?.[field], after: was[field] }))
    .filter(({ before, after }) => JSON.stringify(before ?? null) !== JSON.stringify(after ?? null))
}

/** Shows a file of changes that only one node had, and applies rows of it again. */
export default function DifferenceRows() {
  const { t } = useTranslation('cluster')
  const { node = '', name = '' } = useParams({ strict: false }) as { node?: string; name?: string }
  const files = useQuery(differencesQuery)
  const status = useQuery(statusQuery)
  const file = files.data?.files.find((one) => one.node_id === node && one.name === name)
  return (
    <DetailDrawer title={t('rows.title', { node: file?.node ?? '' })} back={paths.cluster} wide>
      <Loaded query={files} height={200}>
        {() =>
          file ? (
            <>
              <p className={classes.lead}>{t('rows.lead', { node: file.node, time: exactTime(file.created_at) })}</p>
              <File node={node} name={name} tables={file.tables} status={status.data} />
            </>
          ) : (
            <Notice tone="off">{t('rows.gone')}</Notice>
          )
        }
      </Loaded>
    </DetailDrawer>
  )
}

interface FileProps {
  node: string
  name: string
  tables: Record<string, number>
  status: ClusterStatus | undefined
}

function File({ node, name, tables, status }: FileProps) {
  const { t } = useTranslation('cluster')
  const queries = useQueryClient()
  const [table, setTable] = useState('')
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set())
  const query = useInfiniteQuery({
    queryKey: ['cluster', 'differences', node, name, table],
    initialPageParam: 0,
    queryFn: ({ pageParam }) =>
      unwrap(
        http.GET('/cluster/differences/{node}/{name}', {
          params: { path: { node, name }, query: { table: table || undefined, offset: pageParam } },
        }),
      ),
    getNextPageParam: ({ next }) => next ?? undefined,
  })
  const rows = query.data?.pages.flatMap((page) => page.rows) ?? []
  const order = [...chosen]
  const apply = useMutation({
    mutationFn: () =>
      answer(
        http.POST('/cluster/differences/{node}/{name}/apply', {
          params: { path: { node, name } },
          body: { rows: order },
        }),
      ),
    onSuccess: async ({ applied }) => {
      toastApplied(t('rows.applied', { count: order.length }), applied)
      setChosen(new Set())
      await queries.invalidateQueries({ queryKey: ['cluster', 'differences'] })
    },
  })
  const takesChanges = ['primary', 'single'].includes(status?.local_node.role ?? '')
  const applicable = rows.filter(({ state }) => state === 'missing' || state === 'differs')
  const all = applicable.length > 0 && applicable.every(({ row }) => chosen.has(row))
  const toggle = (row: number) =>
    setChosen((was) => (was.has(row) ? new Set([...was].filter((one) => one !== row)) : new Set([...was, row])))
  /** Errors name a position in the request. */
  const complaints = apply.isError
    ? Object.entries(toFault(apply.error).fields).map(([field, text]) => {
        const [, place = '', ...rest] = field.split('.')
        const about = rows.find(({ row }) => row === order[Number(place)])
        return `${about?.name ?? ''} ${rest.join('.')}: ${text}`
      })
    : []
  return (
    <div className={classes.form}>
      {!takesChanges && status && <Notice tone="off">{t('rows.elsewhere')}</Notice>}
      {apply.isError &&
        (complaints.length > 0 ? (
          <Notice tone="bad" title={t('rows.refused')}>
            {complaints.map((text) => (
              <div key={text}>{text}</div>
            ))}
          </Notice>
        ) : (
          <FaultNotice fault={apply.error} />
        ))}
      <Select
        allowDeselect={false}
        label={t('rows.table')}
        value={table}
        onChange={(value) => setTable(value ?? '')}
        data={[
          { value: '', label: t('rows.all') },
          ...Object.entries(tables).map(([one, n]) => ({ value: one, label: `${one} (${n})` })),
        ]}
      />
      <div className={classes.bar}>
        <Checkbox
          label={t('rows.choose')}
          checked={all}
          disabled={!takesChanges || applicable.length === 0}
          onChange={() => setChosen(all ? new Set() : new Set(applicable.map(({ row }) => row)))}
        />
        <Button size="compact-sm" disabled={chosen.size === 0} loading={apply.isPending} onClick={() => apply.mutate()}>
          {t('rows.verb', { count: chosen.size })}
        </Button>
      </div>
      <Loaded query={query} height={160}>
        {() => (
          <ul className={classes.rows} aria-label={t('rows.list')}>
            {rows.map((row) => {
              const label = row.name || row.id || row.table
              return (
                <li key={row.row}>
                  <div className={classes.rowHead}>
                    {row.state === 'missing' || row.state === 'differs' ? (
                      <Checkbox
                        label={label}
                        checked={chosen.has(row.row)}
                        disabled={!takesChanges}
                        onChange={() => toggle(row.row)}
                      />
                    ) : (
                      <span>{label}</span>
                    )}
                    <span className="soft mono">{row.kind || row.table}</span>
                    <Badge tone={tones[row.state]}>{t(`rows.state.${row.state}`)}</Badge>
                  </div>
                  {(row.state === 'missing' || row.state === 'differs') && (
                    <details>
                      <summary>{t('rows.details')}</summary>
                      <FieldChanges changes={changesOf(row)} />
                    </details>
                  )}
                </li>
              )
            })}
          </ul>
        )}
      </Loaded>
      {query.hasNextPage && (
        <Button variant="default" loading={query.isFetchingNextPage} onClick={() => query.fetchNextPage()}>
          {t('rows.more')}
        </Button>
      )}
    </div>
  )
}
