import './texts'
import { useQuery } from '@tanstack/react-query'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { Column } from '../../kit/list/DataTable'
import { RowList } from '../../kit/list/ResourceList'
import { Page } from '../../kit/page/Page'
import { paths } from '../../paths'
import type { ApiCall } from './document'
import { Method } from './Method'
import { documentQuery } from './resources'

export { Detail } from './Detail'

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/** Every API call, from the document that the gateway generates from its routes. */
export default function ReferencePage() {
  const { t } = useTranslation('reference')
  const query = useQuery(documentQuery)
  const tags = [...new Set(query.data?.calls.map(({ tag }) => tag))]
  const columns: Column<ApiCall>[] = [
    { key: 'method', header: t('call.method'), width: '64px', cell: ({ method }) => <Method name={method} /> },
    {
      key: 'path',
      header: t('call.path'),
      main: true,
      width: 'minmax(0, 1.2fr)',
      cell: ({ path }) => <span className="mono">{path}</span>,
    },
    { key: 'summary', header: t('call.summary'), width: 'minmax(0, 1.4fr)', cell: ({ summary }) => summary },
    { key: 'policy', header: t('call.policy'), width: '130px', cell: ({ policy }) => t(`policies.${policy}.short`) },
  ]
  return (
    <Page
      title={t('call.title')}
      lead={
        <>
          {t('lead')} <a href="/api/v1/openapi.json">openapi.json</a>
        </>
      }
    >
      <RowList
        query={query}
        rowsOf={({ calls }) => calls}
        text="reference:call"
        columns={columns}
        filters={[
          {
            key: 'method',
            label: t('call.method'),
            options: methods.map((value) => ({ value, label: value })),
            of: ({ method }) => method,
          },
          {
            key: 'tag',
            label: t('call.tag'),
            options: tags.map((value) => ({ value, label: value })),
            of: ({ tag }) => tag,
            many: true,
          },
        ]}
        searchText={({ id, method, path, summary, tag }) => [id, method, path, summary, tag].join(' ')}
        rowLink={({ id }) => paths.apiCall(id)}
        group={{ of: ({ tag }) => tag, name: (tag) => tag }}
      />
      <Outlet />
    </Page>
  )
}
