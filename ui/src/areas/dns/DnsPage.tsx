import { useTranslation } from 'react-i18next'
import { ServicePage } from '../../kit/page/ServicePage'
import { paths } from '../../paths'
import { Unheard } from './Unheard'
import './texts'

export default function DnsPage() {
  const { t } = useTranslation('dns')
  return (
    <ServicePage
      text="dns"
      component="dns"
      notice={<Unheard />}
      tabs={[
        { to: paths.dns, label: t('tabs.zones') },
        { to: paths.dnsSettings, label: t('tabs.settings') },
        { to: paths.dnsStatistics, label: t('tabs.statistics') },
      ]}
    />
  )
}
