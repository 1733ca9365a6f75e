import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { http, unwrap } from '../../api/client'

/** Current leases, and how full each subnet is. The list is limited; a search finds the others. */
export const leasesQuery = (search = '') =>
  queryOptions({
    queryKey: ['dhcp', 'leases', search],
    queryFn: async () => {
      const { leases, total, usage, error } = await unwrap(http.GET('/dhcp/leases', { params: { query: { search } } }))
      return {
        error,
        total,
        leases: leases.map((lease) => ({ ...lease, id: lease.ip })),
        usage: new Map(usage.map((one) => [one.subnet_id, one])),
      }
    },
    refetchInterval: 5000,
    placeholderData: keepPreviousData,
  })
