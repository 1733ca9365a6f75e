import { Button } from '@mantine/core'
import { IconUserCheck } from '@tabler/icons-react'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { paths } from '../../app/paths'
import { useCanEdit } from '../../app/session'
import { addTexts } from '../../i18n/i18n'
import { ServicePage } from '../../kit/ServicePage'
import en from './en.json'
import { radiusSettings } from './resources'

addTexts('radius', en)

export default function RadiusPage() {
  const { t } = useTranslation('radius')
  const canEdit = useCanEdit()
  return (
    <ServicePage
      text="radius"
      component="radius"
      power={{ settings: radiusSettings, at: paths.radiusSettings }}
      tabs={[
        { to: paths.radius, label: t('tabs.users') },
        { to: paths.radiusClients, label: t('tabs.clients') },
        { to: paths.radiusLogins, label: t('tabs.logins'), live: true },
        { to: paths.radiusSettings, label: t('tabs.settings') },
      ]}
      actions={
        canEdit && (
          <Button
            component={Link}
            to={paths.radiusTest}
            variant="default"
            leftSection={<IconUserCheck size={16} aria-hidden />}
          >
            {t('test.title')}
          </Button>
        )
      }
    />
  )
}
