import { queryOptions } from '@tanstack/react-query'
import { http, raw } from '../../api/client'
import { callsOf, type Document } from './document'

/** The document of this gateway, which is the one to try. It only changes with an upgrade. */
export const documentQuery = queryOptions({
  queryKey: ['openapi'],
  queryFn: async () => {
    const document = (await raw(http.GET('/openapi.json'))) as unknown as Document
    return { document, calls: callsOf(document) }
  },
  staleTime: Number.POSITIVE_INFINITY,
})
