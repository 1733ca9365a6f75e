import { useQuery } from '@tanstack/react-query'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { WafSummary } from '../../api/types'
import { Loaded } from '../../kit/state/Loaded'
import { Agent } from './Agent'
import { Day } from './Day'
import { Domains } from './Domains'
import { summaryQuery } from './resources'
import { TopClients, TopRules } from './Top'
import classes from './Waf.module.css'

const none: WafSummary['domains'] = []

/** The WAF across all domains: the agent's state, the last day, and the mode of each domain. */
export default function Overview() {
  const { t } = useTranslation('waf')
  const summary = useQuery(summaryQuery)
  return (
    <>
      <Loaded query={summary} height={300}>
        {(data) => (
          <>
            <Agent summary={data} />
            <Day summary={data} />
          </>
        )}
      </Loaded>
      <section aria-label={t('domain.title')}>
        <Domains matched={summary.data?.domains ?? none} />
      </section>
      {summary.data && (
        <div className={classes.columns}>
          <TopRules rules={summary.data.rules} />
          <TopClients clients={summary.data.clients} />
        </div>
      )}
      <Outlet />
    </>
  )
}
