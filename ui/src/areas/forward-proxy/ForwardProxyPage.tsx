import { useTranslation } from 'react-i18next'
import { forwardProxySettings } from '../../api/resources'
import { addTexts } from '../../i18n/i18n'
import { ServicePage } from '../../kit/page/ServicePage'
import { paths } from '../../paths'
import en from './en.json'

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
