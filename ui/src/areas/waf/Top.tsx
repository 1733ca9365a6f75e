import { useTranslation } from 'react-i18next'
import type { WafSummary } from '../../api/types'
import { type Column, DataTable } from '../../kit/list/DataTable'
import { Panel } from '../../kit/page/Page'
import { count } from '../../kit/text/format'
import { addsUp } from './alert-logic'
import { AlertsLink } from './marks'
import classes from './Waf.module.css'

interface Counted {
  requests: number
}

function Top<T extends Counted>({ title, rows, rowKey, columns }: TopProps<T>) {
  const { t } = useTranslation('waf')
  const requests: Column<T> = {
    key: 'requests',
    header: t('top.requests'),
    width: '90px',
    align: 'right',
    cell: (row) => count(row.requests),
  }
  return (
    <Panel title={title} flush>
      {rows.length === 0 ? (
        <p className={classes.nothing}>{t('top.none')}</p>
      ) : (
        <DataTable label={title} rows={rows} rowKey={rowKey} columns={[...columns, requests]} />
      )}
    </Panel>
  )
}

interface TopProps<T> {
  title: string
  rows: readonly T[]
  rowKey: (row: T) => string
  columns: Column<T>[]
}

export function TopRules({ rules }: Pick<WafSummary, 'rules'>) {
  const { t } = useTranslation('waf')
  return (
    <Top
      title={t('top.rules')}
      rows={rules.filter(({ rule_id }) => !addsUp(rule_id))}
      rowKey={(row) => String(row.rule_id)}
      columns={[
        {
          key: 'rule',
          header: t('top.rule'),
          width: '80px',
          cell: (row) => (
            <AlertsLink of={{ rule_id: String(row.rule_id) }}>
              <span className="mono">{row.rule_id}</span>
            </AlertsLink>
          ),
        },
        { key: 'message', header: t('top.message'), cell: (row) => row.message || '–' },
      ]}
    />
  )
}

export function TopClients({ clients }: Pick<WafSummary, 'clients'>) {
  const { t } = useTranslation('waf')
  return (
    <Top
      title={t('top.clients')}
      rows={clients}
      rowKey={(row) => row.name}
      columns={[
        {
          key: 'client',
          header: t('top.client'),
          cell: (row) => (
            <AlertsLink of={{ client: row.name }}>
              <span className="mono">{row.name}</span>
            </AlertsLink>
          ),
        },
      ]}
    />
  )
}
