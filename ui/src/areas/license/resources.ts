import { queryOptions } from '@tanstack/react-query'
import { answer, http, unwrap } from '../../api/client'

/** It changes with the clock, too. */
export const licenseQuery = queryOptions({
  queryKey: ['license'],
  queryFn: () => unwrap(http.GET('/license')),
  refetchInterval: 60_000,
})

/** What a form installs: there is one license, and a new one replaces it. */
export const licenseKey = {
  kind: 'license',
  create: (body: object) => answer(http.PUT('/license/key', { body: body as { key: string } })),
}
