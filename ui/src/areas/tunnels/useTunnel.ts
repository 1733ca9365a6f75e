import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { tunnelsQuery } from './resources'

/** The id of the tunnel in the address bar. */
export const useTunnelId = () => (useParams({ strict: false }) as { tunnel: string }).tunnel

export function useTunnel() {
  const id = useTunnelId()
  return useQuery(tunnelsQuery).data?.find((tunnel) => tunnel.id === id)
}
