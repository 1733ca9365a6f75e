import { queryOptions } from '@tanstack/react-query'
import { http, unwrap } from '../../api/client'

/** The last attempts to log in, the newest first. */
export const loginsQuery = queryOptions({
  queryKey: ['radius', 'authentications'],
  queryFn: async () => {
    const { authentications, error } = await unwrap(http.GET('/radius/authentications'))
    // Two attempts may look the same: a row is known by its place, counted from the oldest.
    const logins = authentications.map((login, index) => ({ ...login, id: String(authentications.length - index) }))
    return { error, logins }
  },
  refetchInterval: 3000,
})
