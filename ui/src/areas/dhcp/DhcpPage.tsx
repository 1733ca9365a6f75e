import { useTranslation } from 'react-i18next'
import { dhcpSettings } from '../../api/resources'
import { addTexts } from '../../i18n/i18n'
import { ServicePage } from '../../kit/page/ServicePage'
import { paths } from '../../paths'
import en from './en.json'

addTexts('dhcp', en)

export default function DhcpPage() {
  const { t } = useTranslation('dhcp')
  return (
    <ServicePage
      text="dhcp"
      component="dhcp"
      power={{ settings: dhcpSettings, at: paths.dhcpSettings }}
      tabs={[
        { to: paths.dhcp, label: t('tabs.leases'), live: true },
        { to: paths.dhcpSubnets, label: t('tabs.subnets') },
        { to: paths.dhcpReservations, label: t('tabs.reservations') },
        { to: paths.dhcpSettings, label: t('tabs.settings') },
      ]}
    />
  )
}
