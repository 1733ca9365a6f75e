import { useTranslation } from 'react-i18next'
import type { AuditEntry } from '../../api/types'
import { addTexts } from '../../i18n/i18n'
import { DataTable } from '../../kit/DataTable'
import { Time } from '../../kit/Time'
import en from './en.json'

addTexts('audit', en)

interface AuditListProps {
  entries: readonly AuditEntry[]
  rowLink?: (entry: AuditEntry) => string
}

/** Who did what to which thing, newest first. */
export function AuditList({ entries, rowLink }: AuditListProps) {
  const { t } = useTranslation('audit')
  if (entries.length === 0) return <p style={{ padding: '0 14px' }}>{t('none')}</p>
  return (
    <DataTable
      label={t('title')}
      rows={entries}
      rowKey={(entry) => entry.id}
      rowLink={rowLink}
      columns={[
        {
          key: 'action',
          header: t('action'),
          width: 'minmax(0, 1.2fr)',
          cell: (entry) => <span className="mono">{entry.action}</span>,
        },
        { key: 'subject', header: t('subject'), width: 'minmax(0, 1.8fr)', cell: (entry) => entry.subject },
        { key: 'actor', header: t('actor'), width: 'minmax(0, 1.4fr)', cell: (entry) => entry.actor },
        { key: 'at', header: t('at'), width: '100px', align: 'right', cell: (entry) => <Time at={entry.created_at} /> },
      ]}
    />
  )
}
