import { queryOptions } from '@tanstack/react-query'
import { http, unwrap } from '../../api/client'

/** The latest login attempts, newest first. */
export const loginsQuery = queryOptions({
  queryKey: ['radius', 'authentications'],
  queryFn: async () => {
    const { authentications, error } = await unwrap(http.GET('/radius/authentications'))
    // Attempts can be equal, so the id is the position, counted from the oldest.
    const logins = authentications.map((login, index) => ({ ...login, id: String(authentications.length - index) }))
    return { error, logins }
  },
  refetchInterval: 3000,
})
