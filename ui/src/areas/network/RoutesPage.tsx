import './texts'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Page } from '../../kit/page/Page'
import { Tabs } from '../../kit/page/Tabs'
import { paths } from '../../paths'

export default function RoutesPage() {
  const { t } = useTranslation('network')
  return (
    <Page title={t('route.title')} lead={t('route.lead')}>
      <Tabs
        label={t('route.title')}
        tabs={[
          { to: paths.routes, label: t('route.tabs.managed') },
          { to: paths.liveRoutes, label: t('route.tabs.live') },
        ]}
      />
      <Outlet />
    </Page>
  )
}
