import './texts'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { paths } from '../../app/paths'
import { Page } from '../../kit/Page'
import { Tabs } from '../../kit/Tabs'

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
