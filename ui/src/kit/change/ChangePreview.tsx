import { useQuery } from '@tanstack/react-query'
import { Fragment } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { Data, Operation } from '../../api/resource'
import { FaultNotice } from '../state/Loaded'
import { Waiting } from '../state/Waiting'
import { count } from '../text/format'
import classes from './ChangePreview.module.css'
import { FileDiffs } from './Diff'
import { FieldChanges } from './FieldChanges'
import { Impact } from './Impact'
import { type Model, modelChanges } from './model-changes'
import { useNames } from './names'
import { said } from './rows'
import { useTexts } from './useTexts'
import { deedsOf, kindName, together } from './words'

const intoView = (element: HTMLElement | null) => element?.scrollIntoView({ block: 'nearest' })

type Change = { kind: string; id: string; before?: unknown; after?: unknown; usual: string[] }

/** So many rows are shown; the rest are counted. */
const mostRows = 20

const nameOf = (id: string, row: Model): [string, string][] => (typeof row?.name === 'string' ? [[id, row.name]] : [])
const verbOf = ({ before, after }: Change) => (!before ? 'created' : !after ? 'deleted' : 'updated')

/** What would be stored, in the words of the forms; what says nothing is left out. */
function Changes({ changes }: { changes: Change[] }) {
  const { t } = useTranslation()
  const rows = changes.map((change) => ({
    ...change,
    fields: modelChanges(change.before as Model, change.after as Model).filter(said),
  }))
  const stored = useNames(rows.flatMap(({ fields }) => fields.map(({ field }) => field)))
  // One of these rows may refer to another one, which does not exist yet.
  const names = new Map([...stored, ...rows.flatMap(({ id, after }) => nameOf(id, after as Model))])
  if (!useTexts(rows.map(({ kind }) => kind))) return <Waiting height={120} />
  const more = rows.length - mostRows
  const sums = rows.map((row) => ({ kind: row.kind, created: 0, updated: 0, deleted: 0, [verbOf(row)]: 1 }))
  return (
    <>
      <p className="soft">{deedsOf(together(sums))}</p>
      {rows.slice(0, mostRows).map(({ kind, id, fields, usual }) => (
        <Fragment key={`${kind} ${id}`}>
          {rows.length > 1 && <h4>{kindName(kind)}</h4>}
          <FieldChanges kind={kind} changes={fields} names={names} usual={usual} />
        </Fragment>
      ))}
      {more > 0 && <p className="soft">{t('things.more', { count: more, number: count(more) })}</p>}
    </>
  )
}

/** What would change if this were saved: the fields of the model and the lines of the rendered files. */
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

/** What the gateway says would change. */
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
