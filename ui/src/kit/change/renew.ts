import type { QueryClient } from '@tanstack/react-query'

/** What is read again besides: servers are part of their backend, and what belongs to something goes with it. */
const besides: Record<string, string> = {
  'proxy.server': 'proxy.backend',
  'proxy.domain': 'proxy.routing-rule',
  'dns.zone': 'dns.record',
  'dhcp.subnet': 'dhcp.reservation',
  'tunnel.interface': 'tunnel.peer',
}

/** Reads what is on screen of a kind again, and what changes with it. */
export async function renew(queries: QueryClient, kind: string) {
  const kinds = [kind, besides[kind]].filter((one) => one !== undefined)
  await Promise.all(kinds.map((one) => queries.invalidateQueries({ queryKey: [one] })))
}
