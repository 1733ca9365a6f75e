import './texts'
import { Button } from '@mantine/core'
import { IconPlus } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Link, Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { natRules } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { NatRule } from '../../api/types'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { RowSwitch } from '../../kit/list/RowSwitch'
import SortableTable from '../../kit/list/SortableTable'
import { useMove } from '../../kit/list/useMove'
import { Page } from '../../kit/page/Page'
import { Badge } from '../../kit/state/StateBadge'
import { paths } from '../../paths'
import classes from './Firewall.module.css'
import { CounterFeed, HitsCell, ResetHits } from './Hits'
import { useInsights } from './Insights'
import { RuleName } from './marks'
import { natKinds } from './NatForm'
import { natMatch, natTarget } from './nat-text'
import { OrderedMenu } from './OrderedMenu'
import { labelFilter, labelsOf } from './rule-text'

export { Create, Edit } from './NatForm'

/** The port forward is the usual rule, so it comes first; its form is the shortest. */
function NatActions() {
  const { t } = useTranslation('firewall')
  return (
    <>
      <ResetHits />
      {useCanEdit() && (
        <Button component={Link} to={paths.portForwardNew} leftSection={<IconPlus size={16} />}>
          {t('forward.create')}
        </Button>
      )}
    </>
  )
}

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
      width: '42px',
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
      key: 'match',
      header: t('nat.sections.traffic'),
      width: 'minmax(0, 1.3fr)',
      cell: (row) => natMatch(row, t),
    },
    {
      key: 'target',
      header: t('nat.sections.target'),
      width: 'minmax(0, 1.1fr)',
      cell: (row) => (
        <span className={classes.stack}>
          <span className={row.kind === 'masquerade' ? undefined : 'mono'}>{natTarget(row, t)}</span>
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
    <Page title={t('nat.title')} lead={t('nat.lead')} actions={<NatActions />}>
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
          [row.name, natMatch(row, t), natTarget(row, t), row.kind, row.comment, row.note, ...row.labels, row.id].join(
            ' ',
          )
        }
        rowLink={(row) => paths.natRule(row.id)}
        createLink={paths.natRuleNew}
        order={{ move, name: (row) => row.name, Table: SortableTable }}
      />
      <Outlet />
    </Page>
  )
}
