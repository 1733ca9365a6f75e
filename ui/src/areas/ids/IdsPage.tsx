import './texts'
import { useTranslation } from 'react-i18next'
import { idsSettings } from '../../api/resources'
import { ServicePage } from '../../kit/page/ServicePage'
import { paths } from '../../paths'

export default function IdsPage() {
  const { t } = useTranslation('ids')
  return (
    <ServicePage
      text="ids"
      component="ids"
      power={{ settings: idsSettings, at: paths.idsSettings }}
      tabs={[
        { to: paths.ids, label: t('tabs.decisions') },
        { to: paths.idsAlerts, label: t('tabs.alerts'), live: true },
        { to: paths.idsBouncers, label: t('tabs.bouncers'), live: true },
        { to: paths.idsCollections, label: t('tabs.collections'), live: true },
        { to: paths.idsSettings, label: t('tabs.settings') },
      ]}
    />
  )
}
