import { addTexts } from '../../i18n/i18n'
import { ServicePage } from '../../kit/ServicePage'
import en from './en.json'

addTexts('tunnels', en)

export default function TunnelsPage() {
  return <ServicePage text="tunnels" component="tunnel" />
}
