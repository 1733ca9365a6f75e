import './texts'
import { IconEye } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Outlet } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { rules } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { Rule } from '../../api/types'
import { BulkActions } from '../../kit/list/BulkActions'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { RowSwitch } from '../../kit/list/RowSwitch'
import SortableTable from '../../kit/list/SortableTable'
import { useMove } from '../../kit/list/useMove'
import { Page } from '../../kit/page/Page'
import { Badge } from '../../kit/state/StateBadge'
import { paths } from '../../paths'
import { BuiltIn } from './BuiltIn'
import { type Book, serviceOf, sideOf, useBook } from './book'
import classes from './Firewall.module.css'
import { CounterFeed, HitsCell, ResetHits } from './Hits'
import { InsightsPanel } from './Insights'
import { ActionBadge, RuleName, ZoneName } from './marks'
import { OrderedMenu } from './OrderedMenu'
import { actions } from './rule-form'
import { ruleGuard } from './rule-guard'
import { labelFilter, labelsOf, ruleText } from './rule-text'
import { opensInside } from './wide-open'

export { Create, Edit } from './RuleForm'

export default function RulesPage() {
  const { t } = useTranslation('firewall')
  const book = useBook()
  const move = useMove(rules)
  const { data = [] } = useQuery({ queryKey: [rules.kind], queryFn: rules.list })
  const labels = useMemo(() => labelsOf(data), [data])
  const columns = useColumns(book, data)
  return (
    <Page title={t('rule.title')} lead={t('rule.lead')} actions={<ResetHits />}>
      <CounterFeed />
      <InsightsPanel rules={data} />
      <ResourceList
        resource={rules}
        text="firewall:rule"
        columns={columns}
        filters={[
          {
            key: 'zone',
            label: t('rule.zone'),
            options: [
              ...book.lists.zones.map(({ name }) => ({ value: name, label: name })),
              { value: 'self', label: t('self') },
            ],
            of: (row) => [row.src_zone, row.dst_zone],
            many: true,
          },
          {
            key: 'action',
            label: t('rule.action.label'),
            options: actions.map((value) => ({ value, label: t(`actions.${value}`) })),
            of: (row) => row.action,
          },
          labelFilter<Rule>(labels, t('rule.labels.label')),
        ]}
        searchText={(row) => ruleText(row, book)}
        rowLink={(row) => paths.rule(row.id)}
        createLink={paths.ruleNew}
        order={{ move, name: (row) => row.name, Table: SortableTable }}
        bulk={{
          name: (row) => row.name,
          actions: (chosen, onDone) => (
            <BulkActions kind={rules.kind} rows={chosen} field="enabled" guard={ruleGuard(data)} onDone={onDone} />
          ),
        }}
      />
      <BuiltIn />
      <Outlet />
    </Page>
  )
}

function useColumns(book: Book, all: readonly Rule[]): Column<Rule>[] {
  const { t } = useTranslation('firewall')
  const canEdit = useCanEdit()
  const places = useMemo(() => new Map(all.map(({ id }, index) => [id, index + 1])), [all])
  const side = (row: Rule, which: 'src' | 'dst') => (
    <span className={classes.side}>
      <ZoneName zone={row[`${which}_zone`]} />
      <span className={`${classes.long} ${row[`${which}_cidr`] ? 'mono' : ''}`} title={sideOf(row, which, book)}>
        {sideOf(row, which, book)}
      </span>
    </span>
  )
  const menu: Column<Rule> = {
    key: 'menu',
    header: '',
    width: '26px',
    cell: (row) => (
      <OrderedMenu resource={rules} row={row} text="rule" link={paths.rule(row.id)} createLink={paths.ruleNew} />
    ),
  }
  return [
    { key: 'place', header: '#', width: '32px', align: 'right', cell: (row) => places.get(row.id) ?? '–' },
    {
      key: 'enabled',
      header: t('rule.on'),
      width: '42px',
      cell: (row) => <RowSwitch resource={rules} row={row} field="enabled" name={row.name} guard={ruleGuard(all)} />,
    },
    {
      key: 'name',
      header: t('rule.name.label'),
      width: 'minmax(0, 1.5fr)',
      main: true,
      cell: (row) => (
        <>
          <RuleName row={row} />
          {opensInside(row) && (
            <>
              {' '}
              <Badge tone="warn">{t('wide.mark')}</Badge>
            </>
          )}
        </>
      ),
      sortBy: (row) => row.name,
    },
    { key: 'source', header: t('rule.sections.src'), width: 'minmax(0, 1.2fr)', cell: (row) => side(row, 'src') },
    { key: 'destination', header: t('rule.sections.dst'), width: 'minmax(0, 1.2fr)', cell: (row) => side(row, 'dst') },
    {
      key: 'service',
      header: t('rule.service.label'),
      width: 'minmax(0, 0.8fr)',
      cell: (row) => serviceOf(row, book) ?? <span className="soft">{t('any')}</span>,
    },
    {
      key: 'action',
      header: t('rule.action.label'),
      width: '92px',
      cell: (row) => (
        <span className={classes.action}>
          <ActionBadge action={row.action} />
          {row.log && <IconEye size={15} role="img" aria-label={t('rule.logs')} />}
        </span>
      ),
    },
    { key: 'hits', header: t('hits.header'), width: '142px', align: 'right', cell: (row) => <HitsCell id={row.id} /> },
    ...(canEdit ? [menu] : []),
  ]
}
