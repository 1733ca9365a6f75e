import './texts'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { paths } from '../../app/paths'
import { Page } from '../../kit/Page'
import { Tabs } from '../../kit/Tabs'

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
