import type { Operation } from '../../api/resource'
import type { Address, AddressGroup, Client, FirewallUsage, Rule } from '../../api/types'

/** The name of the address group of blocked clients, and of its rule. */
export const blockedClients = 'Blocked clients'

/** What the firewall already has. */
export interface Stored {
  objects: readonly Address[]
  groups: readonly AddressGroup[]
  rules: readonly Rule[]
}

/** A client's addresses without the link-local ones, which packets through the gateway never have. */
export const addressesOf = ({ addresses }: Pick<Client, 'addresses'>) => [
  ...new Set(addresses.map(({ address }) => address).filter((address) => !/^fe[89ab]/i.test(address))),
]

/** The name to show for a client. */
export const nameOf = ({ name, addresses, mac, id }: Pick<Client, 'name' | 'addresses' | 'mac' | 'id'>) =>
  name || addresses[0]?.address || mac || id

const refusesAll = (rule: Rule, group: string) =>
  rule.src_group_id === group &&
  rule.action !== 'accept' &&
  rule.src_zone === 'any' &&
  rule.dst_zone === 'any' &&
  rule.dst_kind === 'any' &&
  !rule.service_object_id &&
  !rule.service_group_id

/**
 * The operations that block a client: its addresses become members of a group whose traffic a rule drops. The first
 * block creates the group and the rule. The rule comes first, because any earlier one might accept the traffic.
 */
export function blockOperations(client: Client, stored: Stored, newId: () => string): Operation[] {
  const operations: Operation[] = []
  const taken = new Set(stored.objects.map(({ name }) => name))
  const members = addressesOf(client).map((address) => {
    const known = stored.objects.find(({ kind, value }) => kind === 'host' && value === address)
    if (known) return known.id
    const id = newId()
    const name = free([client.name, address].filter(Boolean).join(' '), taken)
    taken.add(name)
    operations.push({
      kind: 'firewall.address-object',
      verb: 'create',
      id,
      body: { name, kind: 'host', value: address },
    })
    return id
  })
  const group = stored.groups.find(({ name }) => name === blockedClients)
  const groupId = group?.id ?? newId()
  const all = [...new Set([...(group?.members ?? []), ...members])]
  operations.push(
    group
      ? { kind: 'firewall.address-group', verb: 'update', id: groupId, body: { members: all } }
      : { kind: 'firewall.address-group', verb: 'create', id: groupId, body: { name: blockedClients, members: all } },
  )
  const rule = stored.rules.find((one) => refusesAll(one, groupId))
  if (!rule) {
    const first = Math.min(10, ...stored.rules.map(({ priority }) => priority)) - 10
    const body = { name: blockedClients, src_kind: 'group', src_group_id: groupId, action: 'drop', priority: first }
    operations.push({ kind: 'firewall.rule', verb: 'create', id: newId(), body })
  } else if (!rule.enabled) {
    operations.push({ kind: 'firewall.rule', verb: 'update', id: rule.id, body: { enabled: true } })
  }
  return operations
}

function free(name: string, taken: ReadonlySet<string>): string {
  const short = name.slice(0, 110)
  for (let number = 1; ; number++) {
    const tried = number === 1 ? short : `${short} ${number}`
    if (!taken.has(tried)) return tried
  }
}

/**
 * The operations that unblock a client: its objects leave the groups, and unused ones are deleted. Rules that name an
 * object directly stay.
 */
export function unblockOperations(
  client: Client,
  groups: readonly AddressGroup[],
  usage: readonly FirewallUsage[],
): Operation[] {
  const blocks = client.blocked_by.filter(({ group_id }) => group_id)
  const objects = new Set(blocks.map(({ object_id }) => object_id))
  const touched = groups.filter(({ id }) => blocks.some(({ group_id }) => group_id === id))
  const unused = [...objects].filter((object) =>
    usage.find(({ id }) => id === object)?.used_by.every(({ id }) => touched.some((group) => group.id === id)),
  )
  return [
    ...touched.map((group): Operation => {
      const members = group.members.filter((id) => !objects.has(id))
      return { kind: 'firewall.address-group', verb: 'update', id: group.id, body: { members } }
    }),
    ...unused.map((id): Operation => ({ kind: 'firewall.address-object', verb: 'delete', id })),
  ]
}
