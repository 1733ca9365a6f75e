import { useQueries } from '@tanstack/react-query'
import {
  addresses,
  addressGroups,
  backends,
  certificates,
  dhcpSubnets,
  dnsProviders,
  dnsZones,
  domains,
  interfaces,
  serviceGroups,
  services,
  tunnels,
} from '../../api/resources'
import type { Names } from './kinds'

interface Named {
  id: string
  name?: string
  cidr?: string
  names?: string[]
}

/** Where to find the rows that a field refers to, by the field's name. */
const referred: [fields: RegExp, lists: { kind: string; list: () => Promise<Named[]> }[]][] = [
  [/_object_id$|^members$/, [addresses, services]],
  [/_group_id$/, [addressGroups, serviceGroups]],
  [/^backend_id$/, [backends]],
  [/^domain_id$/, [domains]],
  [/^certificate_id$/, [certificates]],
  [/^dns_provider_id$/, [dnsProviders]],
  [/^interface_id$/, [interfaces, tunnels]],
  [/^subnet_id$/, [dhcpSubnets]],
  [/^zone_id$/, [dnsZones]],
]

/** The names of the rows that these fields may refer to. */
export function useNames(fields: readonly string[]): Names {
  const lists = referred.filter(([pattern]) => fields.some((field) => pattern.test(field))).flatMap(([, all]) => all)
  return useQueries({
    queries: lists.map(({ kind, list }) => ({ queryKey: [kind], queryFn: list })),
    combine: (results) =>
      new Map(
        results
          .flatMap(({ data }) => data ?? [])
          .map(({ id, name, cidr, names }) => [id, name ?? cidr ?? names?.join(', ') ?? id]),
      ),
  })
}
