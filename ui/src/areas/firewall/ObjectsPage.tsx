import './texts'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Page } from '../../kit/page/Page'
import { Tabs } from '../../kit/page/Tabs'
import { paths } from '../../paths'

export default function ObjectsPage() {
  const { t } = useTranslation('firewall')
  return (
    <Page title={t('objects.title')} lead={t('objects.lead')}>
      <Tabs
        label={t('objects.title')}
        tabs={[
          { to: paths.addresses, label: t('address.title') },
          { to: paths.addressGroups, label: t('addressGroup.title') },
        ]}
      />
      <Outlet />
    </Page>
  )
}
