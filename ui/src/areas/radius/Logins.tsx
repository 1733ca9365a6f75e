import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import type { RadiusLogin } from '../../api/types'
import type { Column } from '../../kit/list/DataTable'
import { RowList } from '../../kit/list/ResourceList'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { Time } from '../../kit/text/Time'
import { loginsQuery } from './resources'

/** Who tried to log in, from where, and the result. */
export default function Logins() {
  const { t } = useTranslation('radius')
  const query = useQuery(loginsQuery)
  const { error, logins = [] } = query.data ?? {}
  const word = ({ accepted }: Pick<RadiusLogin, 'accepted'>) => (accepted ? 'accepted' : 'rejected')
  const columns: Column<RadiusLogin & { id: string }>[] = [
    {
      key: 'user',
      header: t('login.user'),
      width: 'minmax(0, 1.2fr)',
      cell: (row) => <span className="mono">{row.user}</span>,
      sortBy: (row) => row.user,
    },
    {
      key: 'outcome',
      header: t('login.outcome'),
      width: '110px',
      cell: (row) => <Badge tone={row.accepted ? 'live' : 'bad'}>{t(`login.${word(row)}`)}</Badge>,
      sortBy: (row) => row.accepted,
    },
    {
      key: 'reason',
      header: t('login.reason'),
      width: 'minmax(0, 1.6fr)',
      cell: (row) => row.reason || <span className="soft">–</span>,
    },
    {
      key: 'client',
      header: t('login.client'),
      cell: (row) => <span className="mono">{row.client}</span>,
      sortBy: (row) => row.client,
    },
    {
      key: 'station',
      header: t('login.station'),
      cell: (row) => <span className="mono">{row.station || '–'}</span>,
      sortBy: (row) => row.station,
    },
    {
      key: 'at',
      header: t('login.at'),
      width: '100px',
      align: 'right',
      cell: (row) => <Time at={row.at} />,
      sortBy: (row) => row.at,
    },
  ]
  return (
    <>
      {error && (
        <Notice tone="warn" title={t('login.unknown')}>
          {error}
        </Notice>
      )}
      {!(error && logins.length === 0) && (
        <RowList
          query={query}
          rowsOf={({ logins }) => logins}
          text="radius:login"
          columns={columns}
          filters={[
            {
              key: 'outcome',
              label: t('login.outcome'),
              options: ['accepted', 'rejected'].map((value) => ({ value, label: t(`login.${value}`) })),
              of: word,
            },
          ]}
          searchText={(row) => [row.user, row.client, row.station, row.reason].join(' ')}
        />
      )}
    </>
  )
}
