import { queryOptions } from '@tanstack/react-query'
import { http, unwrap } from '../../api/client'
import { resource, singleton } from '../../api/resource'

export const dhcpSubnets = resource('dhcp.subnet', '/dhcp/subnets')
export const dhcpReservations = resource('dhcp.reservation', '/dhcp/reservations')
export const dhcpSettings = singleton('dhcp.settings', '/dhcp/settings', 'put')

/** Who has which address now, and how full each subnet is. */
export const leasesQuery = queryOptions({
  queryKey: ['dhcp', 'leases'],
  queryFn: async () => {
    const { leases, usage, error } = await unwrap(http.GET('/dhcp/leases'))
    return {
      error,
      leases: leases.map((lease) => ({ ...lease, id: lease.ip })),
      usage: new Map(usage.map((one) => [one.subnet_id, one])),
    }
  },
  refetchInterval: 5000,
})
