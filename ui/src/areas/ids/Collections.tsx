import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import type { IdsCollection } from '../../api/types'
import { RowList } from '../../kit/list/ResourceList'
import { Untold } from './marks'
import { collectionsQuery } from './resources'

type Row = IdsCollection & { id: string }

/** The installed collections: what CrowdSec can detect. */
export default function Collections() {
  const { t } = useTranslation('ids')
  const query = useQuery(collectionsQuery)
  if (query.data?.error) return <Untold error={query.data.error} text="collection" />
  return (
    <RowList
      query={query}
      rowsOf={({ collections }) => collections.map((row): Row => ({ ...row, id: row.name }))}
      text="ids:collection"
      columns={[
        {
          key: 'name',
          header: t('collection.name'),
          cell: ({ name }) => <span className="mono">{name}</span>,
          sortBy: ({ name }) => name,
        },
        {
          key: 'description',
          header: t('collection.description'),
          width: 'minmax(0, 2fr)',
          cell: ({ description }) => description || <span className="soft">–</span>,
        },
        { key: 'version', header: t('collection.version'), width: '90px', cell: ({ version }) => version || '–' },
        { key: 'status', header: t('collection.status'), width: '150px', cell: ({ status }) => status },
      ]}
      searchText={({ name, description }) => `${name} ${description}`}
    />
  )
}
