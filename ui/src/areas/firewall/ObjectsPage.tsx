import './texts'
import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { paths } from '../../app/paths'
import { Page } from '../../kit/Page'
import { Tabs } from '../../kit/Tabs'

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
