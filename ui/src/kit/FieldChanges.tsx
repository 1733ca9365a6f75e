import classes from './FieldChanges.module.css'

export interface FieldChange {
  field: string
  before: unknown
  after: unknown
}

const show = (value: unknown) =>
  value === undefined || value === null ? '–' : typeof value === 'string' ? value || '""' : JSON.stringify(value)

/** The fields of a resource that change, with what they were and what they become. */
export function FieldChanges({ changes }: { changes: FieldChange[] }) {
  return (
    <dl className={classes.changes}>
      {changes.map(({ field, before, after }) => (
        <div key={field}>
          <dt>{field}</dt>
          <dd>
            {before !== undefined && before !== null && <del>{show(before)}</del>} <ins>{show(after)}</ins>
          </dd>
        </div>
      ))}
    </dl>
  )
}
