import type { Operation } from '../../api/resource'
import type { Adoptable } from '../../api/types'

/** What the operator wants of a link that nobody declared. */
export interface Choice {
  link: Adoptable
  take: boolean
  zone: string
  /** The addresses to take over, as texts with their prefix. */
  addresses: string[]
}

/** What the first rules shall do. */
export interface Starter {
  reach: boolean
  masquerade: boolean
}

export const addressText = ({ address, prefix }: Adoptable['addresses'][number]) => `${address}/${prefix}`

/**
 * What is proposed: every link but those that are part of another one, and every address but those that somebody
 * else renews.
 */
export function proposal(links: readonly Adoptable[]): Choice[] {
  const parts = new Set(links.flatMap(({ members }) => members))
  return links.map((link) => ({
    link,
    take: !parts.has(link.name),
    zone: link.suggested_role,
    addresses: link.addresses.filter(({ dynamic }) => !dynamic).map(addressText),
  }))
}

const taken = (choices: readonly Choice[]) => choices.filter(({ take }) => take)

/** The first rules make sense between a network inside and one outside. */
export function offersStarter(choices: readonly Choice[]): boolean {
  const zones = taken(choices).map(({ zone }) => zone)
  return zones.includes('wan') && zones.includes('lan')
}

interface Names {
  reach: string
  masquerade: string
}

/** One change set that declares what was chosen; addresses refer to their interface by the id it is given here. */
export function adoptionOf(
  choices: readonly Choice[],
  starter: Starter,
  names: Names,
  newId: () => string = () => crypto.randomUUID(),
): Operation[] {
  const create = (kind: string, body: object, id = newId()): Operation => ({ kind, verb: 'create', id, body })
  const operations = taken(choices).flatMap(({ link, zone, addresses }) => {
    const id = newId()
    const { name, type, parent, vlan_id, members, bond_mode } = link
    return [
      create('network.interface', { name, type, role: zone, parent, vlan_id, members, bond_mode }, id),
      ...link.addresses
        .filter((one) => addresses.includes(addressText(one)))
        .map(({ address, prefix }) => create('network.ip-address', { interface_id: id, address, prefix })),
    ]
  })
  if (!offersStarter(choices)) return operations
  const outward = { in_zone: 'any', out_zone: 'wan', protocol: 'any' }
  return [
    ...operations,
    ...(starter.reach
      ? [create('firewall.rule', { name: names.reach, src_zone: 'lan', dst_zone: 'wan', action: 'accept' })]
      : []),
    ...(starter.masquerade
      ? [create('firewall.nat-rule', { name: names.masquerade, kind: 'masquerade', ...outward })]
      : []),
  ]
}
