import './texts'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { paths } from '../../app/paths'
import { Page } from '../../kit/Page'
import { Tabs } from '../../kit/Tabs'

export default function CertificatesPage() {
  const { t } = useTranslation('certificates')
  return (
    <Page title={t('title')} lead={t('lead')}>
      <Tabs
        label={t('title')}
        tabs={[
          { to: paths.certificates, label: t('tabs.certificates') },
          { to: paths.dnsProviders, label: t('tabs.providers') },
          { to: paths.acme, label: t('tabs.acme') },
        ]}
      />
      <Outlet />
    </Page>
  )
}
