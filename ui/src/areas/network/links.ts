import type { Adoptable, IpAddress, LiveLink, NetworkInterface } from '../../api/types'
import { grouped } from '../../kit/list/list-logic'
import type { Tone } from '../../kit/state/Notice'

export type LinkState = 'up' | 'no-carrier' | 'down' | 'missing'

/** An address as it is: ours, a virtual one, or one that somebody else bound. */
export interface BoundAddress {
  text: string
  kind: 'managed' | 'vip' | 'manual'
  /** Whether the kernel has it. */
  bound: boolean
  stored?: IpAddress
}

/** A link: what is declared of it and what the kernel knows of it, either of which may be missing. */
export interface Link {
  name: string
  type: NetworkInterface['type'] | undefined
  zone: string | undefined
  declared?: NetworkInterface
  live?: LiveLink
  state: LinkState
  /** The links under it: the parent of a vlan, the members of a bond or a bridge. */
  under: string[]
  addresses: BoundAddress[]
}

/** What is known of the network, each part from its own place. */
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

/** What was switched off may be away; what was not is broken then. */
export function toneOf({ state, declared }: Pick<Link, 'state' | 'declared'>): Tone {
  if (state === 'up') return 'live'
  if (state === 'no-carrier') return 'warn'
  return declared?.active ? 'bad' : 'off'
}

/** Whether the gateway manages a link. A tunnel of its own is managed, even without a zone. */
export const isManaged = ({ declared, live }: Pick<Link, 'declared' | 'live'>) => !!declared || !!live?.tunnel

const collator = new Intl.Collator('en', { numeric: true })

/** Every link that is declared or there, by name; the loopback is nobody's business. */
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
 * The addresses of one link: ours first, then those that are bound without us. Those of a tunnel belong to the tunnel. Link-local
 * ones do not count.
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

/** The gateway's own addresses by interface, as choices: those inside first. */
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

/** The names of links that something can be made of: everything known but the one itself. */
export function linkNames(links: readonly Link[], except?: string): string[] {
  return links.map(({ name }) => name).filter((name) => name !== except)
}
