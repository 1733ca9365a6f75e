import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { addTexts } from '../../i18n/i18n'
import { Page } from '../../kit/page/Page'
import { Tabs } from '../../kit/page/Tabs'
import { paths } from '../../paths'
import en from './en.json'

addTexts('profile', en)

export default function ProfilePage() {
  const { t } = useTranslation('profile')
  return (
    <Page title={t('title')}>
      <Tabs
        label={t('title')}
        tabs={[
          { to: paths.profile, label: t('account') },
          { to: paths.profileSecond, label: t('second.tab') },
          { to: paths.profileTokens, label: t('token.title') },
          { to: paths.profileSessions, label: t('session.title') },
        ]}
      />
      <Outlet />
    </Page>
  )
}
