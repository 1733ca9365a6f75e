import './texts'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Past, RowPast } from '../../api/resource'
import { useCanEdit } from '../../api/session'
import { FieldChanges } from '../../kit/change/FieldChanges'
import { fieldLabel, valueText } from '../../kit/change/kinds'
import { useNames } from '../../kit/change/names'
import { deedOf } from '../../kit/change/rows'
import { useTexts } from '../../kit/change/useTexts'
import type { RowHistoryProps } from '../../kit/form/row-history'
import { Facts } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Badge } from '../../kit/state/StateBadge'
import { Waiting } from '../../kit/state/Waiting'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import classes from './History.module.css'
import { RevertView } from './RevertView'
import { revertTo } from './resources'

/** The history of one row: each change, the row as it was, and how to go back. */
export default function RowHistory({ kind, id, past }: RowHistoryProps) {
  const { t } = useTranslation('history')
  const query = useQuery({ queryKey: [kind, id, 'history'], queryFn: () => past.entries(id) })
  const ready = useTexts([kind])
  return (
    <Loaded query={query} height={240}>
      {(entries) =>
        !ready ? (
          <Waiting height={240} />
        ) : entries.length === 0 ? (
          <p className="soft">{t('row.none')}</p>
        ) : (
          <ul className={classes.rows}>
            {entries.map((entry, index) => (
              <Entry key={entry.change_set} entry={entry} newest={index === 0} past={past} />
            ))}
          </ul>
        )
      }
    </Loaded>
  )
}

interface EntryProps {
  entry: RowPast
  newest: boolean
  past: Past<unknown>
}

const tones = { create: 'live', update: 'off', delete: 'bad' } as const

function Entry({ entry, newest, past }: EntryProps) {
  const { t } = useTranslation('history')
  const canEdit = useCanEdit()
  const [open, setOpen] = useState<'as-was' | 'revert' | null>(null)
  const { kind, id, created_at, change_set, actor, reason, verb } = entry
  const { changes, usual } = deedOf(entry)
  const names = useNames(changes.map(({ field }) => field))
  const toggle = (what: 'as-was' | 'revert') => setOpen(open === what ? null : what)
  return (
    <li>
      <div className={classes.row}>
        <Badge tone={tones[verb]}>{t(`change:verbs.${verb}`)}</Badge>
        <Link to={paths.changeSet(change_set)}>
          <Time at={created_at} />
        </Link>
        <span>{actor}</span>
        {newest && <span className="soft">{t('row.current')}</span>}
      </div>
      {reason && <p>{reason}</p>}
      <FieldChanges changes={changes} kind={kind} names={names} usual={usual} />
      {verb !== 'delete' && (
        <div className={classes.actions}>
          <Button size="compact-sm" variant="default" onClick={() => toggle('as-was')}>
            {t(open === 'as-was' ? 'row.hide' : 'row.view')}
          </Button>
          {canEdit && !newest && (
            <Button size="compact-sm" variant="default" onClick={() => toggle('revert')}>
              {t(open === 'revert' ? 'row.cancel' : 'row.revert')}
            </Button>
          )}
        </div>
      )}
      {open === 'as-was' && <AsItWas entry={entry} past={past} />}
      {open === 'revert' && (
        <div className={classes.inside}>
          <RevertView
            of={[kind, id, created_at]}
            ask={(options, intent) => revertTo({ at: created_at, kinds: [kind], id }, options, intent)}
            onDone={() => setOpen(null)}
          />
        </div>
      )}
    </li>
  )
}

const bookkeeping = ['id', 'created_at', 'updated_at']

/** The whole row as it was after one of its changes. */
function AsItWas({ entry: { kind, id, created_at }, past }: { entry: RowPast; past: Past<unknown> }) {
  const query = useQuery({ queryKey: [kind, id, 'at', created_at], queryFn: () => past.at(id, created_at) })
  const fields = Object.keys((query.data as object | undefined) ?? {})
  const names = useNames(fields)
  return (
    <div className={classes.inside}>
      <Loaded query={query}>
        {(row) => (
          <Facts
            facts={Object.entries(row as Record<string, unknown>)
              .filter(([field]) => !bookkeeping.includes(field))
              .map(([field, value]) => [fieldLabel(kind, field), valueText(kind, field, value, names)])}
          />
        )}
      </Loaded>
    </div>
  )
}
