import './texts'
import { useQuery } from '@tanstack/react-query'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Page } from '../../kit/page/Page'
import { Tabs } from '../../kit/page/Tabs'
import { paths } from '../../paths'
import { AgentBadge } from './marks'
import { summaryQuery } from './resources'

export default function WafPage() {
  const { t } = useTranslation('waf')
  const { data } = useQuery(summaryQuery)
  return (
    <Page
      title={t('title')}
      lead={t('lead')}
      actions={data && <AgentBadge agent={data.agent} used={data.enabled > 0} />}
    >
      <Tabs
        label={t('title')}
        tabs={[
          { to: paths.waf, label: t('tabs.overview') },
          { to: paths.wafAlerts, label: t('tabs.alerts') },
          { to: paths.wafRules, label: t('tabs.rules') },
        ]}
      />
      <Outlet />
    </Page>
  )
}
