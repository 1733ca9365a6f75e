import './texts'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Page } from '../../kit/page/Page'
import { Tabs } from '../../kit/page/Tabs'
import { paths } from '../../paths'

export default function BackupsPage() {
  const { t } = useTranslation('backups')
  return (
    <Page title={t('title')} lead={t('lead')}>
      <Tabs
        label={t('title')}
        tabs={[
          { to: paths.backups, label: t('tabs.archives') },
          { to: paths.backupTargets, label: t('tabs.targets') },
        ]}
      />
      <Outlet />
    </Page>
  )
}
