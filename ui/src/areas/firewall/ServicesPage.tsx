import './texts'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Page } from '../../kit/page/Page'
import { Tabs } from '../../kit/page/Tabs'
import { paths } from '../../paths'

export default function ServicesPage() {
  const { t } = useTranslation('firewall')
  return (
    <Page title={t('servicesPage.title')} lead={t('servicesPage.lead')}>
      <Tabs
        label={t('servicesPage.title')}
        tabs={[
          { to: paths.services, label: t('service.title') },
          { to: paths.serviceGroups, label: t('serviceGroup.title') },
        ]}
      />
      <Outlet />
    </Page>
  )
}
