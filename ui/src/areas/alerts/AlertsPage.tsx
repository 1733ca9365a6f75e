import './texts'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Page } from '../../kit/page/Page'
import { Tabs } from '../../kit/page/Tabs'
import { paths } from '../../paths'

export default function AlertsPage() {
  const { t } = useTranslation('alerts')
  return (
    <Page title={t('title')} lead={t('lead')}>
      <Tabs
        label={t('title')}
        tabs={[
          { to: paths.alerts, label: t('tabs.events') },
          { to: paths.alertChannels, label: t('tabs.channels') },
          { to: paths.alertMutes, label: t('tabs.mutes') },
          { to: paths.alertSettings, label: t('tabs.settings') },
        ]}
      />
      <Outlet />
    </Page>
  )
}
