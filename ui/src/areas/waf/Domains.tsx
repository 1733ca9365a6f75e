import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { domains } from '../../api/resources'
import type { WafConfig, WafSummary } from '../../api/types'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { count } from '../../kit/text/format'
import { paths } from '../../paths'
import { type State, stateOf } from './config-form'
import { AlertsLink, WafState } from './marks'
import { Outlook } from './Outlook'
import { matchedOf } from './readiness'
import { configsQuery } from './resources'

const states: State[] = ['blocking', 'detection', 'off']

interface Row {
  id: string
  name: string
  state: State
  config: WafConfig | undefined
  matched: ReturnType<typeof matchedOf>
}

/** The state of the WAF for each domain. */
export function Domains({ matched }: { matched: WafSummary['domains'] }) {
  const { t } = useTranslation('waf')
  const { data: configs = [] } = useQuery(configsQuery)
  const byId = new Map(configs.map((config) => [config.id, config]))
  const columns: Column<Row>[] = [
    {
      key: 'name',
      header: t('domain.name'),
      width: 'minmax(0, 1.4fr)',
      cell: ({ name }) => <span className="mono">{name}</span>,
      sortBy: ({ name }) => name,
    },
    {
      key: 'state',
      header: t('domain.state'),
      width: '110px',
      cell: ({ state }) => <WafState state={state} />,
      sortBy: ({ state }) => states.indexOf(state),
    },
    {
      key: 'level',
      header: t('domain.level'),
      width: '60px',
      align: 'right',
      cell: ({ state, config }) => (state === 'off' ? <span className="soft">–</span> : config?.paranoia_level),
      sortBy: ({ state, config }) => (state === 'off' ? 0 : (config?.paranoia_level ?? 0)),
    },
    {
      key: 'requests',
      header: t('domain.requests'),
      width: '120px',
      align: 'right',
      cell: ({ id, matched: { requests, exact } }) => {
        const number = count(requests)
        if (requests === 0) return <span className="soft">0</span>
        return <AlertsLink of={{ domain_id: id }}>{exact ? number : t('domain.atMost', { number })}</AlertsLink>
      },
      sortBy: ({ matched: { requests } }) => requests,
    },
    {
      key: 'outlook',
      header: t('domain.outlook'),
      width: 'minmax(0, 1.4fr)',
      cell: ({ state, config }) => (state === 'detection' && config ? <Outlook config={config} /> : '–'),
    },
  ]
  return (
    <ResourceList
      resource={domains}
      join={(rows) =>
        rows.map(({ id, name }): Row => {
          const config = byId.get(id)
          return { id, name, config, state: stateOf(config), matched: matchedOf(matched, id) }
        })
      }
      text="waf:domain"
      columns={columns}
      filters={[
        {
          key: 'state',
          label: t('domain.state'),
          options: states.map((value) => ({ value, label: t(`states.${value}`) })),
          of: ({ state }) => state,
        },
      ]}
      searchText={({ id, name }) => `${name} ${id}`}
      rowLink={({ id }) => paths.wafDomain(id)}
    />
  )
}
