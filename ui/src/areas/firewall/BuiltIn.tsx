import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import type { BuiltInRule } from '../../api/types'
import { type Column, DataTable } from '../../kit/list/DataTable'
import { Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { ActionBadge } from './marks'

/** The built-in rules: what is always open, and what happens to everything else. */
export function BuiltIn() {
  const { t } = useTranslation('firewall')
  const query = useQuery({
    queryKey: ['firewall', 'built-in'],
    queryFn: () => unwrap(http.GET('/firewall/built-in')),
  })
  const list = (values: readonly string[]) => (values.length > 0 ? values.join(', ') : t('any'))
  const columns: Column<BuiltInRule>[] = [
    {
      key: 'name',
      header: t('rule.name.label'),
      width: 'minmax(0, 1.2fr)',
      main: true,
      cell: (row) => (row.action === 'drop' ? t('builtIn.rest') : row.name),
    },
    { key: 'text', header: t('builtIn.text'), width: 'minmax(0, 2.4fr)', cell: (row) => row.text },
    { key: 'order', header: t('builtIn.order'), cell: (row) => t(row.last ? 'builtIn.last' : 'builtIn.first') },
    { key: 'interfaces', header: t('builtIn.interfaces'), cell: (row) => list(row.interfaces) },
    { key: 'addresses', header: t('builtIn.addresses'), cell: (row) => list(row.addresses) },
    { key: 'ports', header: t('builtIn.ports'), cell: (row) => list(row.ports) },
    {
      key: 'action',
      header: t('rule.action.label'),
      width: '92px',
      cell: (row) => <ActionBadge action={row.action} />,
    },
  ]
  return (
    <Panel title={t('builtIn.title')} flush>
      <Loaded query={query} height={200}>
        {(rows) => (
          <div className="soft">
            <DataTable
              label={t('builtIn.title')}
              columns={columns}
              rows={rows}
              rowKey={(row) => [row.name, row.last, ...row.ports, ...row.interfaces].join(' ')}
            />
          </div>
        )}
      </Loaded>
    </Panel>
  )
}
