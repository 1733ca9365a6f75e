import { useQueries, useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { http, unwrap } from '../../api/client'
import { addresses, addressGroups, serviceGroups, services, zones } from '../../api/resources'
import type { Address, AddressGroup, FirewallService, FirewallServiceGroup, Rule, Zone } from '../../api/types'

/** What rules refer to. */
export interface Lists {
  zones: Zone[]
  addresses: Address[]
  addressGroups: AddressGroup[]
  services: FirewallService[]
  serviceGroups: FirewallServiceGroup[]
}

const listed = [zones, addresses, addressGroups, services, serviceGroups] as const
const none: never[] = []

/** Finds what rules refer to by its id. */
export class Book {
  private readonly names: Map<string, string>
  private readonly members: Map<string, string>

  constructor(readonly lists: Lists) {
    const own = [
      ...lists.addresses.map((one) => [one.id, `${one.name} ${one.value} ${one.resolved.join(' ')}`] as const),
      ...lists.services.map((one) => [one.id, `${one.name} ${portsOf(one)}`] as const),
    ]
    const texts = new Map(own)
    const groups = [...lists.addressGroups, ...lists.serviceGroups]
    this.names = new Map([...lists.addresses, ...lists.services, ...groups].map(({ id, name }) => [id, name]))
    this.members = new Map([
      ...own,
      ...groups.map(
        ({ id, name, members }) => [id, [name, ...members.map((one) => texts.get(one))].join(' ')] as const,
      ),
    ])
  }

  /** The name of an object, a service or a group. */
  name(id: string | null | undefined): string | undefined {
    return id ? (this.names.get(id) ?? id) : undefined
  }

  /** The name and all that it stands for: addresses, ports, members. */
  everything(id: string | null | undefined): string {
    return id ? `${this.members.get(id) ?? ''} ${id}` : ''
  }
}

/** A service's protocol and ports: tcp 443, udp 5000–5010. */
export function portsOf({
  protocol,
  port_start,
  port_end,
}: Pick<FirewallService, 'protocol' | 'port_start' | 'port_end'>) {
  return port_start ? `${protocol} ${span(port_start, port_end)}` : protocol
}

export function span(start: number, end: number | null | undefined): string {
  return end && end !== start ? `${start}–${end}` : String(start)
}

/** The address on one side of a rule: an object, a group or a network; undefined for any. */
export function sideOf(rule: Rule, side: 'src' | 'dst', book: Book): string | undefined {
  return (
    book.name(rule[`${side}_object_id`]) ?? book.name(rule[`${side}_group_id`]) ?? (rule[`${side}_cidr`] || undefined)
  )
}

export function serviceOf(rule: Rule, book: Book): string | undefined {
  return book.name(rule.service_object_id) ?? book.name(rule.service_group_id)
}

export function useBook(): Book {
  const answers = useQueries({
    queries: listed.map(({ kind, list }) => ({ queryKey: [kind], queryFn: list as () => Promise<unknown[]> })),
  })
  const [zone, address, addressGroup, service, serviceGroup] = answers.map(({ data }) => data ?? none)
  return useMemo(
    () =>
      new Book({
        zones: zone,
        addresses: address,
        addressGroups: addressGroup,
        services: service,
        serviceGroups: serviceGroup,
      } as Lists),
    [zone, address, addressGroup, service, serviceGroup],
  )
}

/** The kind of an interface among the users of a zone. */
export const interfaceKind = 'network.interface'

/** What uses each row, by id. The key starts with the area, so that any firewall change refetches it. */
export function useUsage() {
  const { data } = useQuery({
    queryKey: ['firewall', 'usage'],
    queryFn: () => unwrap(http.GET('/firewall/usage')),
  })
  return useMemo(() => new Map((data ?? []).map(({ id, used_by }) => [id, used_by])), [data])
}
