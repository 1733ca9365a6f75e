import type { Adoptable, IpAddress, LiveLink, NetworkInterface } from '../../api/types'
import { grouped } from '../../kit/list/list-logic'
import type { Tone } from '../../kit/state/Notice'

export type LinkState = 'up' | 'no-carrier' | 'down' | 'missing'

/** An address: managed, virtual or unmanaged. */
export interface BoundAddress {
  text: string
  kind: 'managed' | 'vip' | 'manual'
  /** Whether it is in the kernel. */
  bound: boolean
  stored?: IpAddress
}

/** An interface: its configuration and its live state, either of which may be missing. */
export interface Link {
  name: string
  type: NetworkInterface['type'] | undefined
  zone: string | undefined
  declared?: NetworkInterface
  live?: LiveLink
  state: LinkState
  /** The interfaces below it: the parent of a VLAN, the members of a bond or a bridge. */
  under: string[]
  addresses: BoundAddress[]
}

/** The data that the interfaces are joined from. */
export interface Known {
  declared: readonly NetworkInterface[]
  addresses: readonly IpAddress[]
  live: readonly LiveLink[]
  adoptable: readonly Adoptable[]
}

export function stateOf(live: LiveLink | undefined): LinkState {
  if (!live) return 'missing'
  if (!live.flags.includes('UP')) return 'down'
  return live.flags.includes('LOWER_UP') ? 'up' : 'no-carrier'
}

/** An interface that is off may be down; one that is on is then broken. */
export function toneOf({ state, declared }: Pick<Link, 'state' | 'declared'>): Tone {
  if (state === 'up') return 'live'
  if (state === 'no-carrier') return 'warn'
  return declared?.active ? 'bad' : 'off'
}

/** Whether the gateway manages an interface. Its own tunnels are managed even without a zone. */
export const isManaged = ({ declared, live }: Pick<Link, 'declared' | 'live'>) => !!declared || !!live?.tunnel

const collator = new Intl.Collator('en', { numeric: true })

/** All configured or live interfaces by name, without loopback. */
export function joinLinks({ declared, addresses, live, adoptable }: Known): Link[] {
  const rows = new Map(declared.map((one) => [one.name, one]))
  const lives = new Map(live.filter(({ link_type }) => link_type !== 'loopback').map((one) => [one.ifname, one]))
  const found = new Map(adoptable.map((one) => [one.name, one]))
  const stored = grouped(addresses, ({ interface_id }) => interface_id)
  const names = [...new Set([...rows.keys(), ...lives.keys()])].sort(collator.compare)
  return names.map((name) => {
    const row = rows.get(name)
    const link = lives.get(name)
    const shape = row ?? found.get(name)
    return {
      name,
      type: shape?.type ?? (link?.tunnel ? 'wireguard' : undefined),
      zone: row?.role,
      declared: row,
      live: link,
      state: stateOf(link),
      under: [...(shape?.parent ? [shape.parent] : []), ...(shape?.members ?? [])],
      addresses: joinAddresses(stored.get(row?.id ?? '') ?? [], link),
    }
  })
}

/**
 * The addresses of one interface: managed ones first, then unmanaged ones. A tunnel's addresses belong to the tunnel.
 * Link-local ones are left out.
 */
function joinAddresses(stored: IpAddress[], live: LiveLink | undefined): BoundAddress[] {
  const bound = new Set(
    (live?.addr_info ?? []).filter(({ scope }) => scope !== 'link').map((one) => `${one.local}/${one.prefixlen}`),
  )
  const ours = stored.map((one) => {
    const text = `${one.address}/${one.prefix}`
    return {
      text,
      kind: one.is_vip ? ('vip' as const) : ('managed' as const),
      bound: bound.has(text),
      stored: one,
    }
  })
  const own = new Set(ours.map(({ text }) => text))
  const others = [...bound].filter((text) => !own.has(text))
  const kind = live?.tunnel ? ('managed' as const) : ('manual' as const)
  return [...ours, ...others.map((text) => ({ text, kind, bound: true }))]
}

const bare = (text: string) => text.split('/')[0] ?? ''

/** The gateway's own addresses by interface, as choices. Those in the WAN zone come last. */
export function ownAddresses(links: readonly Link[]) {
  const inside = (one: Link) => Number(one.zone !== 'wan')
  return links
    .filter(({ addresses }) => addresses.length > 0)
    .sort((a, b) => inside(b) - inside(a))
    .map(({ name, zone, addresses }) => ({
      group: zone ? `${name} (${zone})` : name,
      items: addresses.map(({ text }) => bare(text)),
    }))
}

/** The names of all interfaces but one, as choices for its parent or members. */
export function linkNames(links: readonly Link[], except?: string): string[] {
  return links.map(({ name }) => name).filter((name) => name !== except)
}
