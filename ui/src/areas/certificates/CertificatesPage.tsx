import './texts'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Page } from '../../kit/page/Page'
import { Tabs } from '../../kit/page/Tabs'
import { paths } from '../../paths'

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
