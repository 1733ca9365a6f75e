import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { Data, Operation } from '../../api/resource'
import { FaultNotice } from '../state/Loaded'
import { Waiting } from '../state/Waiting'
import { count } from '../text/format'
import classes from './ChangePreview.module.css'
import { FileDiffs } from './Diff'
import { Impact } from './Impact'
import { RowsView } from './RowsView'
import { plannedDeed } from './rows'
import { deedsOf, together } from './words'

const intoView = (element: HTMLElement | null) => element?.scrollIntoView({ block: 'nearest' })

/** How many rows to show; the rest are counted. */
const mostRows = 20

/** The rows that would be stored. */
function Changes({ changes }: Pick<Data<'/change-sets', 'post'>, 'changes'>) {
  const { t } = useTranslation()
  const rows = changes.map(plannedDeed)
  const more = rows.length - mostRows
  const sums = rows.map(({ kind, verb }) => ({ kind, created: 0, updated: 0, deleted: 0, [`${verb}d`]: 1 }))
  return (
    <>
      <p className="soft">{deedsOf(together(sums))}</p>
      <RowsView rows={rows.slice(0, mostRows)} planned alone={rows.length === 1} />
      {more > 0 && <p className="soft">{t('things.more', { count: more, number: count(more) })}</p>}
    </>
  )
}

/** What saving would change: the fields, and the lines of the rendered files. */
export default function ChangePreview({ operations }: { operations: Operation[] }) {
  const query = useQuery({
    queryKey: ['preview', operations],
    queryFn: () => unwrap(http.POST('/change-sets', { body: { operations, preview: true, reason: '' } })),
    gcTime: 0,
    retry: false,
  })
  if (query.isError) return <FaultNotice fault={query.error} />
  return query.data ? <Previewed {...query.data} /> : <Waiting height={120} />
}

/** The gateway's preview of a change. */
export function Previewed({ changes, files, impact }: Data<'/change-sets', 'post'>) {
  const { t } = useTranslation()
  return (
    <section ref={intoView} className={classes.preview} aria-label={t('preview.title')}>
      {impact.length > 0 && <h3>{t('impact.title')}</h3>}
      <Impact areas={impact} />
      <h3>{t('preview.model')}</h3>
      <Changes changes={changes} />
      <h3>{t('preview.files')}</h3>
      {files.length === 0 && <p className="soft">{t('preview.noFiles')}</p>}
      <FileDiffs files={files} />
    </section>
  )
}
