import { useTranslation } from 'react-i18next'
import { paths } from '../../app/paths'
import { addTexts } from '../../i18n/i18n'
import { ServicePage } from '../../kit/ServicePage'
import en from './en.json'
import { forwardProxySettings } from './resources'

addTexts('forward-proxy', en)

export default function ForwardProxyPage() {
  const { t } = useTranslation('forward-proxy')
  return (
    <ServicePage
      text="forward-proxy"
      component="forward-proxy"
      power={{ settings: forwardProxySettings, at: paths.forwardProxySettings }}
      tabs={[
        { to: paths.forwardProxy, label: t('tabs.acls') },
        { to: paths.forwardProxySettings, label: t('tabs.settings') },
        { to: paths.forwardProxyStatistics, label: t('tabs.statistics'), live: true },
      ]}
    />
  )
}
