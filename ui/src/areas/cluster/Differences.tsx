import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { DifferenceFile } from '../../api/types'
import { type Column, DataTable } from '../../kit/list/DataTable'
import { RowButton } from '../../kit/list/RowButton'
import { Panel } from '../../kit/page/Page'
import { Notice } from '../../kit/state/Notice'
import { bytes, count } from '../../kit/text/format'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import classes from './Cluster.module.css'
import { differencesQuery } from './resources'

/** The files of changes that only one node had, if any. */
export function Differences() {
  const { t } = useTranslation('cluster')
  const queries = useQueryClient()
  const { data } = useQuery(differencesQuery)
  if (!data?.files.length) return null
  const remove = async ({ node_id: node, name }: DifferenceFile) => {
    await unwrap(http.DELETE('/cluster/differences/{node}/{name}', { params: { path: { node, name } } }))
    await queries.invalidateQueries(differencesQuery)
  }
  const columns: Column<DifferenceFile>[] = [
    { key: 'when', header: t('differences.when'), cell: (row) => <Time at={row.created_at} /> },
    {
      key: 'node',
      header: t('differences.node'),
      width: 'minmax(0, 1.5fr)',
      cell: (row) => <span className="mono">{row.node}</span>,
    },
    { key: 'rows', header: t('differences.rows'), cell: (row) => count(row.rows) },
    { key: 'size', header: t('differences.size'), cell: (row) => bytes(row.size) },
    {
      key: 'delete',
      header: '',
      width: '80px',
      align: 'right',
      cell: (row) => (
        <RowButton
          verb={t('common:delete.verb')}
          name={row.name}
          question={{ title: t('differences.deleteTitle'), text: t('differences.deleteText', { node: row.node }) }}
          act={() => remove(row)}
          done={t('differences.deleted')}
        />
      ),
    },
  ]
  return (
    <Panel title={t('differences.title')} flush>
      <p className={classes.intro}>{t('differences.lead')}</p>
      {data.unasked.length > 0 && (
        <Notice tone="warn">{t('differences.unasked', { nodes: data.unasked.join(', ') })}</Notice>
      )}
      <DataTable
        label={t('differences.title')}
        columns={columns}
        rows={data.files}
        rowKey={(row) => row.node_id + row.name}
        rowLink={(row) => paths.clusterDifferences(row.node_id, row.name)}
      />
    </Panel>
  )
}
