import { useTranslation } from 'react-i18next'
import { Fold } from '../page/Fold'
import classes from './FieldChanges.module.css'
import { fieldLabel, type Names, valueText } from './kinds'

export interface FieldChange {
  field: string
  before: unknown
  after: unknown
}

const plain = (value: unknown) =>
  value === undefined || value === null ? '–' : typeof value === 'string' ? value || '""' : JSON.stringify(value)

interface FieldChangesProps {
  changes: FieldChange[]
  /** The kind whose form has the labels of the fields; by default API names are shown. */
  kind?: string
  names?: Names
  /** The fields of a new row that have their defaults: folded into one line. */
  usual?: readonly string[]
}

/** The changed fields of a resource, with old and new values. */
export function FieldChanges({ changes, kind, names, usual = [] }: FieldChangesProps) {
  const { t } = useTranslation()
  const defaults = changes.filter(({ field }) => usual.includes(field))
  return (
    <>
      <List changes={changes.filter(({ field }) => !usual.includes(field))} kind={kind} names={names} />
      {defaults.length > 0 && (
        <Fold title={t('preview.defaults', { count: defaults.length })}>
          <List changes={defaults} kind={kind} names={names} />
        </Fold>
      )}
    </>
  )
}

function List({ changes, kind, names }: Omit<FieldChangesProps, 'usual'>) {
  const show = (field: string, value: unknown) => (kind ? valueText(kind, field, value, names) : plain(value))
  return (
    <dl className={classes.changes}>
      {changes.map(({ field, before, after }) => (
        <div key={field}>
          <dt>{kind ? fieldLabel(kind, field) : field}</dt>
          <dd>
            {before !== undefined && before !== null && before !== '' && <del>{show(field, before)}</del>}{' '}
            {/* A deleted row has no new values. */}
            {after !== undefined && <ins>{show(field, after)}</ins>}
          </dd>
        </div>
      ))}
    </dl>
  )
}
