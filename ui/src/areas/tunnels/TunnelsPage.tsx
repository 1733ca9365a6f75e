import './texts'
import { ServicePage } from '../../kit/ServicePage'

export default function TunnelsPage() {
  return <ServicePage text="tunnels" component="tunnel" />
}
