import { useTranslation } from 'react-i18next'
import { paths } from '../../app/paths'
import { ServicePage } from '../../kit/ServicePage'
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
