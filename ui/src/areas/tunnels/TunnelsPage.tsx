import './texts'
import { ServicePage } from '../../kit/page/ServicePage'

export default function TunnelsPage() {
  return <ServicePage text="tunnels" component="tunnel" />
}
