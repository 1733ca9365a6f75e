import { Button } from '@mantine/core'
import { IconUserCheck } from '@tabler/icons-react'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { radiusSettings } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import { addTexts } from '../../i18n/i18n'
import { ServicePage } from '../../kit/page/ServicePage'
import { paths } from '../../paths'
import en from './en.json'

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
