import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { pathOfThing } from '../../paths'
import { Badge } from '../state/StateBadge'
import { Waiting } from '../state/Waiting'
import { FieldChanges } from './FieldChanges'
import { fieldLabel, type Names } from './kinds'
import { useNames } from './names'
import classes from './RowsView.module.css'
import type { RowDeed } from './rows'
import './texts'
import { useTexts } from './useTexts'
import { kindName } from './words'

const tones = { create: 'live', update: 'off', delete: 'bad' } as const

interface RowsViewProps {
  rows: readonly RowDeed[]
  /** The changes are still to be made. */
  planned?: boolean
  /** There is only one row, and the text above says what happens to it. */
  alone?: boolean
  /** Shown next to a row. Its presence also means that even new rows have a page. */
  beside?: (row: RowDeed) => ReactNode
}

/** Past or planned changes to rows, in the words of their forms. */
export function RowsView({ rows, planned, alone, beside }: RowsViewProps) {
  const stored = useNames(rows.flatMap(({ changes }) => changes.map(({ field }) => field)))
  // The rows may refer to each other, even if they are deleted or not created yet.
  const names = new Map([...stored, ...rows.map(({ id, name }): [string, string] => [id, name])])
  if (!useTexts(rows.map(({ kind }) => kind))) return <Waiting height={120} />
  return (
    <ul className={classes.rows}>
      {rows.map((row) => (
        <Row
          key={`${row.kind} ${row.id || row.name} ${row.verb}`}
          row={row}
          names={names}
          planned={planned}
          alone={alone}
          beside={beside}
        />
      ))}
    </ul>
  )
}

function Row({ row, names, planned, alone, beside }: Omit<RowsViewProps, 'rows'> & { row: RowDeed; names: Names }) {
  const { t } = useTranslation('change')
  const { kind, id, name, verb, changes, usual, secrets = [], hidden } = row
  // Rows that do not exist have no page, except new ones in the draft; a document has no ids.
  const gone = id === '' || (verb === (planned ? 'create' : 'delete') && !beside)
  const to = gone ? undefined : pathOfThing({ kind, id })
  return (
    <li>
      {!alone && (
        <div className={classes.row}>
          <Badge tone={tones[verb]}>{t(`${planned ? 'planned' : 'verbs'}.${verb}`)}</Badge>
          <span className="soft">{kindName(kind)}</span>
          {/* Settings have no name of their own. */}
          {name !== id &&
            name.toLowerCase() !== kindName(kind).toLowerCase() &&
            (to ? <Link to={to}>{name}</Link> : <strong>{name}</strong>)}
          {beside?.(row)}
        </div>
      )}
      {hidden && <p className="soft">{t('hidden')}</p>}
      <FieldChanges changes={changes} kind={kind} names={names} usual={usual} />
      {secrets.length > 0 && (
        <p className="soft">{t('secrets', { fields: secrets.map((field) => fieldLabel(kind, field)).join(', ') })}</p>
      )}
    </li>
  )
}
