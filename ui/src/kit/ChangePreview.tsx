import { useQuery } from '@tanstack/react-query'
import { Fragment } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../api/client'
import type { Operation } from '../api/resource'
import { optionalText } from '../i18n/i18n'
import classes from './ChangePreview.module.css'
import { Diff } from './Diff'
import { FieldChanges } from './FieldChanges'
import { FaultNotice } from './Loaded'
import { type Model, modelChanges } from './model-changes'
import { Waiting } from './Waiting'

const intoView = (element: HTMLElement | null) => element?.scrollIntoView({ block: 'nearest' })

/** What would change if this were saved: the fields of the model and the lines of the rendered files. */
export default function ChangePreview({ operations }: { operations: Operation[] }) {
  const { t } = useTranslation()
  const query = useQuery({
    queryKey: ['preview', operations],
    queryFn: () => unwrap(http.POST('/change-sets', { body: { operations, preview: true, reason: '' } })),
    gcTime: 0,
    retry: false,
  })
  if (query.isError) return <FaultNotice fault={query.error} />
  if (!query.data) return <Waiting height={120} />
  return (
    <section ref={intoView} className={classes.preview} aria-label={t('preview.title')}>
      <h3>{t('preview.model')}</h3>
      {query.data.changes.map((change) => (
        <Fragment key={`${change.kind} ${change.id}`}>
          {operations.length > 1 && <h4>{optionalText(`kinds.${change.kind}`) ?? change.kind}</h4>}
          <FieldChanges changes={modelChanges(change.before as Model, change.after as Model)} />
        </Fragment>
      ))}
      <h3>{t('preview.files')}</h3>
      {query.data.files.length === 0 && <p className="soft">{t('preview.noFiles')}</p>}
      {query.data.files.map((file) => (
        <div key={file.path}>
          <p className="mono">{file.path}</p>
          <Diff text={file.diff} />
        </div>
      ))}
    </section>
  )
}
