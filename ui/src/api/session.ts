import { type QueryClient, queryOptions, useSuspenseQuery } from '@tanstack/react-query'
import { http, unwrap } from './client'

export const meQuery = queryOptions({
  queryKey: ['me'],
  queryFn: () => unwrap(http.GET('/auth/me')),
  staleTime: 60_000,
})

export function useMe() {
  return useSuspenseQuery(meQuery).data
}

/** A viewer sees everything and changes nothing, so the console does not offer what would be refused. */
export function useCanEdit() {
  return useMe().role === 'admin'
}

/**
 * The same for rows of long lists, where a subscription costs more than drawing. The list redraws when it changes
 * anyway.
 */
export const mayEdit = (queries: QueryClient) => queries.getQueryData(meQuery.queryKey)?.role === 'admin'

let leaving = false

/** Whether the user is logging out. Then the session is not lost, and the login needs no way back. */
export const isLeaving = () => leaving

export async function logOut() {
  leaving = true
  try {
    await unwrap(http.POST('/auth/logout'))
  } finally {
    location.replace('/login')
  }
}
