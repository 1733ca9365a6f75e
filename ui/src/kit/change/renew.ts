import type { QueryClient } from '@tanstack/react-query'

/**
 * Kinds to reload along with another: servers are part of their backend, and children are deleted with their parent.
 */
const besides: Record<string, string> = {
  'proxy.server': 'proxy.backend',
  'proxy.domain': 'proxy.routing-rule',
  'dns.zone': 'dns.record',
  'dhcp.subnet': 'dhcp.reservation',
  'tunnel.interface': 'tunnel.peer',
}

/** Reloads a kind wherever it is shown, and the kinds that change with it. */
export async function renew(queries: QueryClient, kind: string) {
  const kinds = [kind, besides[kind]].filter((one) => one !== undefined)
  await Promise.all(kinds.map((one) => queries.invalidateQueries({ queryKey: [one] })))
}
