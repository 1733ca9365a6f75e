import './texts'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Page } from '../../kit/page/Page'
import { Tabs } from '../../kit/page/Tabs'
import { paths } from '../../paths'

export default function DiagnosticsPage() {
  const { t } = useTranslation('diagnostics')
  return (
    <Page title={t('title')} lead={t('lead')}>
      <Tabs
        label={t('title')}
        tabs={[
          { to: paths.diagnostics, label: t('tabs.tools') },
          { to: paths.diagnosticsPath, label: t('tabs.path') },
          { to: paths.diagnosticsConnections, label: t('tabs.connections') },
          { to: paths.diagnosticsCapture, label: t('tabs.capture') },
        ]}
      />
      <Outlet />
    </Page>
  )
}
