import { useTranslation } from 'react-i18next'
import type { AuditEntry } from '../../api/types'
import { DataTable, ListEnd } from '../../kit/list/DataTable'
import { Waiting } from '../../kit/state/Waiting'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import './texts'
import { changeSetOf } from './changes'
import { addressOf, deedOf, deedsOfAll, type Line, linesOf } from './words'

interface AuditListProps {
  entries: readonly AuditEntry[]
  /** Called while the end is visible; undefined if there are no more entries. */
  onEnd?: () => void
}

const linkOf = ({ newest, entries }: Line) => {
  const set = changeSetOf(newest)
  return set && entries.length > 1 ? paths.changeSet(set) : paths.auditEntry(newest.id)
}

/** Who did what to which thing, newest first. The entries of a change set share a line. */
export function AuditList({ entries, onEnd }: AuditListProps) {
  const { t } = useTranslation('audit')
  if (entries.length === 0)
    return onEnd ? (
      <>
        <Waiting height={120} />
        <ListEnd onSeen={onEnd} />
      </>
    ) : (
      <p style={{ padding: '0 14px' }}>{t('none')}</p>
    )
  return (
    <DataTable
      label={t('title')}
      rows={linesOf(entries)}
      rowKey={(line) => line.id}
      rowLink={linkOf}
      onEnd={onEnd}
      columns={[
        {
          key: 'action',
          header: t('action'),
          width: 'minmax(0, 1.4fr)',
          cell: (line) => (line.entries.length > 1 ? deedsOfAll(line.entries) : deedOf(line.newest.action)),
        },
        {
          key: 'subject',
          header: t('subject'),
          width: 'minmax(0, 1.6fr)',
          cell: ({ entries: [first, ...more] }) => (
            <>
              {first?.subject}
              {more.length > 0 && <span className="soft"> {t('moreSubjects', { count: more.length })}</span>}
            </>
          ),
        },
        { key: 'actor', header: t('actor'), width: 'minmax(0, 1.3fr)', cell: (line) => line.newest.actor },
        {
          key: 'address',
          header: t('address'),
          width: 'minmax(0, 0.9fr)',
          cell: (line) => <span className="mono">{addressOf(line.newest) ?? '–'}</span>,
        },
        {
          key: 'at',
          header: t('at'),
          width: '100px',
          align: 'right',
          cell: (line) => <Time at={line.newest.created_at} />,
        },
      ]}
    />
  )
}
