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

/** A viewer sees everything and changes nothing: the console does not offer what would be refused. */
export function useCanEdit() {
  return useMe().role === 'admin'
}

/** The same for what a list has thousands of, where watching costs more than drawing: the list is drawn again when it changes. */
export const mayEdit = (queries: QueryClient) => queries.getQueryData(meQuery.queryKey)?.role === 'admin'

let leaving = false

/** Whether the user is logging out: then the session is over, not lost, and there is nothing to come back to. */
export const isLeaving = () => leaving

export async function logOut() {
  leaving = true
  try {
    await unwrap(http.POST('/auth/logout'))
  } finally {
    location.replace('/login')
  }
}
