import './texts'
import { useQuery } from '@tanstack/react-query'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { NatRule } from '../../api/types'
import { paths } from '../../app/paths'
import { useCanEdit } from '../../app/session'
import type { Column } from '../../kit/DataTable'
import { Page } from '../../kit/Page'
import { ResourceList } from '../../kit/ResourceList'
import { RowSwitch } from '../../kit/RowSwitch'
import SortableTable from '../../kit/SortableTable'
import { Badge } from '../../kit/StateBadge'
import { useMove } from '../../kit/useMove'
import classes from './Firewall.module.css'
import { CounterFeed, HitsCell, ResetHits } from './Hits'
import { useInsights } from './Insights'
import { RuleName } from './marks'
import { natKinds } from './NatForm'
import { natSentence } from './nat-text'
import { OrderedMenu } from './OrderedMenu'
import { natRules } from './resources'
import { labelFilter, labelsOf } from './rule-text'

export { Create, Edit } from './NatForm'

export default function NatPage() {
  const { t } = useTranslation('firewall')
  const canEdit = useCanEdit()
  const move = useMove(natRules)
  const { data = [] } = useQuery({ queryKey: [natRules.kind], queryFn: natRules.list })
  const insights = useInsights().data
  const idle = new Map([...(insights?.skipped ?? []), ...(insights?.empty ?? [])].map((one) => [one.id, one.reason]))
  const menu: Column<NatRule> = {
    key: 'menu',
    header: '',
    width: '26px',
    cell: (row) => (
      <OrderedMenu
        resource={natRules}
        row={row}
        text="nat"
        link={paths.natRule(row.id)}
        createLink={paths.natRuleNew}
      />
    ),
  }
  const columns: Column<NatRule>[] = [
    {
      key: 'enabled',
      header: t('rule.on'),
      width: '34px',
      cell: (row) => <RowSwitch resource={natRules} row={row} field="enabled" name={row.name} />,
    },
    {
      key: 'name',
      header: t('nat.name.label'),
      main: true,
      cell: (row) => <RuleName row={row} />,
      sortBy: (row) => row.name,
    },
    {
      key: 'kind',
      header: t('nat.kind.label'),
      width: '96px',
      cell: (row) => t(`nat.kinds.${row.kind}`),
      sortBy: (row) => row.kind,
    },
    {
      key: 'sentence',
      header: t('nat.does'),
      width: 'minmax(0, 1.8fr)',
      cell: (row) => (
        <span className={classes.stack}>
          <span className="mono">{natSentence(row, t)}</span>
          {row.enabled && idle.has(row.id) && (
            <span>
              <Badge tone="warn">{t('nat.noEffect')}</Badge> {idle.get(row.id)}
            </span>
          )}
        </span>
      ),
    },
    { key: 'hits', header: t('hits.header'), width: '142px', align: 'right', cell: (row) => <HitsCell id={row.id} /> },
    ...(canEdit ? [menu] : []),
  ]
  return (
    <Page title={t('nat.title')} lead={t('nat.lead')} actions={<ResetHits />}>
      <CounterFeed />
      <ResourceList
        resource={natRules}
        text="firewall:nat"
        columns={columns}
        filters={[
          {
            key: 'kind',
            label: t('nat.kind.label'),
            options: natKinds.map((value) => ({ value, label: t(`nat.kinds.${value}`) })),
            of: (row) => row.kind,
          },
          labelFilter<NatRule>(labelsOf(data), t('rule.labels.label')),
        ]}
        searchText={(row) =>
          [row.name, natSentence(row, t), row.kind, row.comment, row.note, ...row.labels, row.id].join(' ')
        }
        rowLink={(row) => paths.natRule(row.id)}
        createLink={paths.natRuleNew}
        order={{ move, name: (row) => row.name, Table: SortableTable }}
      />
      <Outlet />
    </Page>
  )
}
