import { queryOptions } from '@tanstack/react-query'
import { answer, http, unwrap } from '../../api/client'

/** The status also changes with time. */
export const licenseQuery = queryOptions({
  queryKey: ['license'],
  queryFn: () => unwrap(http.GET('/license')),
  refetchInterval: 60_000,
})

/** Installing a license replaces the current one. */
export const licenseKey = {
  kind: 'license',
  create: (body: object) => answer(http.PUT('/license/key', { body: body as { key: string } })),
}
