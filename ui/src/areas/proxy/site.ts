import type { Operation } from '../../api/resource'
import type { Values } from '../../kit/form/fields'

/**
 * The ids of new rows, chosen here so that the rows can refer to each other in one change set. The gateway may choose
 * another one for the backend.
 */
export interface Ids {
  backend: string
  server: string
  domain: string
}

export const newIds = (): Ids => ({
  backend: crypto.randomUUID(),
  server: crypto.randomUUID(),
  domain: crypto.randomUUID(),
})

/** Creates a backend with its first server. */
export function backendOperations({ name, scheme, lb_algorithm, address, port }: Values, ids: Ids): Operation[] {
  return [
    {
      kind: 'proxy.backend',
      verb: 'create',
      id: ids.backend,
      provisional: true,
      body: { name, scheme, lb_algorithm },
    },
    {
      kind: 'proxy.server',
      verb: 'create',
      id: ids.server,
      body: { backend_id: ids.backend, name: 'server-1', address, port },
    },
  ]
}

/** Creates a site: its domain, and its backend if that is new. */
export function siteOperations(values: Values, ids: Ids): Operation[] {
  const fresh = values.where === 'new'
  const { name, http_to_https } = values
  const body = { name, http_to_https, backend_id: fresh ? ids.backend : values.backend_id }
  return [
    ...(fresh ? backendOperations(values, ids) : []),
    { kind: 'proxy.domain', verb: 'create', id: ids.domain, body },
  ]
}
