import type { Thing } from '../../api/fault'
import { Stream } from '../../api/stream'
import type { Address, Client, FirewallService, LogEvent, Zone } from '../../api/types'
import type { ListSearch } from '../../kit/list/list-logic'
import { interfaceKind } from './book'
import type { Draft } from './rule-form'

export const logFilters = ['rule_id', 'src', 'dst', 'port', 'proto', 'interface', 'zone', 'action', 'q'] as const

/** The filters in the address bar, as the gateway applies them. */
export function logQuery(search: ListSearch): Record<string, string> {
  return Object.fromEntries(logFilters.flatMap((name) => (search[name] ? [[name, search[name]]] : [])))
}

/** An event and its sequence number, because it has no id. */
export type Numbered = LogEvent & { number: number }

interface Frame {
  events: LogEvent[]
  dropped: number
}

/** The filtered log. Each filter gets a stream of its own, which starts with a snapshot. */
export function logStream(query: Record<string, string>): Stream<Numbered> {
  let number = 0
  const text = new URLSearchParams(query).toString()
  return new Stream<Numbered>(`/firewall/log/live${text && `?${text}`}`, {
    key: (event) => String(event.number),
    limit: 1000,
    unpack: ({ events, dropped }: Frame) => ({
      items: events.map((event) => ({ ...event, number: number++ })),
      dropped,
    }),
  })
}

export function place(address: string, port: number | null | undefined): string {
  if (!port) return address
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

type Known = Pick<Client, 'name' | 'addresses'>

/** The names of addresses: those of the clients that have them, else of their objects. */
export function addressNames(clients: readonly Known[], objects: readonly Pick<Address, 'name' | 'kind' | 'value'>[]) {
  const hosts = objects.filter(({ kind }) => kind === 'host')
  const devices = clients.filter(({ name }) => name)
  return new Map([
    ...hosts.map(({ name, value }) => [value, name] as const),
    ...devices.flatMap(({ name, addresses }) => addresses.map(({ address }) => [address, name] as const)),
  ])
}

/** The zone of an interface, found through the users of each zone. */
export function zoneOf(link: string | undefined, zones: readonly Zone[], usage: Map<string, Thing[]>) {
  return zones.find(({ id }) => usage.get(id)?.some(({ kind, name }) => kind === interfaceKind && name === link))?.name
}

/** The narrowest service that has an event's protocol and port. */
export function serviceOfEvent({ proto, destination_port: port }: Packet, services: readonly FirewallService[]) {
  const speaks = (protocol: string) => protocol === proto || (protocol === 'tcp+udp' && /^(tcp|udp)$/.test(proto))
  const width = (one: FirewallService) => (one.port_end ?? one.port_start ?? 65_535) - (one.port_start ?? 0)
  return services
    .filter((one) => speaks(one.protocol))
    .filter((one) => !port || (one.port_start && one.port_start <= port && port <= (one.port_end ?? one.port_start)))
    .sort((a, b) => width(a) - width(b) || a.protocol.length - b.protocol.length)[0]
}

const host = (address: string) => `${address}/${address.includes(':') ? 128 : 32}`

export interface Surroundings {
  zones: readonly Zone[]
  services: readonly FirewallService[]
  usage: Map<string, Thing[]>
}

type Packet = Pick<LogEvent, 'proto' | 'source' | 'destination'> & { destination_port?: number | null }

/** A draft of a rule that lets a packet pass from one zone to another. */
export function draftFor(packet: Packet, from: string, to: string, services: readonly FirewallService[]): Draft {
  const { proto, source, destination, destination_port: port } = packet
  return {
    name: `${proto}${port ? ` ${port}` : ''} ${source} → ${destination}`,
    src_zone: from || 'any',
    src_kind: 'cidr',
    src_cidr: host(source),
    dst_zone: to || 'any',
    dst_kind: 'cidr',
    dst_cidr: host(destination),
    service_object_id: serviceOfEvent(packet, services)?.id,
    action: 'accept',
  }
}

/** A draft of a rule that lets an event's packet pass. */
export function draftOf(event: LogEvent, { zones, services, usage }: Surroundings): Draft {
  const zone = (link: string | undefined) => zoneOf(link, zones, usage) ?? 'any'
  return draftFor(event, zone(event.interface), event.out_interface ? zone(event.out_interface) : 'self', services)
}

/** The search parameters to explain a packet like that of an event. */
export function questionOf(event: LogEvent): ListSearch {
  return {
    in: event.interface ? `interface:${event.interface}` : undefined,
    source: event.source,
    destination: event.destination,
    protocol: event.proto,
    source_port: event.source_port ? String(event.source_port) : undefined,
    destination_port: event.destination_port ? String(event.destination_port) : undefined,
  }
}
