const octet = '(25[0-5]|2[0-4]\\d|1?\\d?\\d)'
const address = new RegExp(`^${octet}\\.${octet}\\.${octet}\\.${octet}$`)

const numberOf = (text: string): number | null => {
  const parts = address.exec(text)
  return parts?.slice(1).reduce((sum, part) => sum * 256 + Number(part), 0) ?? null
}
const textOf = (ip: number) => [24, 16, 8, 0].map((shift) => Math.floor(ip / 2 ** shift) % 256).join('.')

interface Network {
  base: number
  size: number
}

/** A network as it is typed, whole or not yet. */
function parseNetwork(cidr: string): Network | null {
  const [text = '', bits = ''] = cidr.trim().split('/')
  const ip = numberOf(text)
  if (ip === null || !/^([12]?\d|3[0-2])$/.test(bits)) return null
  const size = 2 ** (32 - Number(bits))
  return { base: Math.floor(ip / size) * size, size }
}

const holds = ({ base, size }: Network, ip: number) => ip >= base && ip < base + size

/** The network that an address such as 10.10.0.1/24 is in. */
export function networkOf(bound: string): string {
  const network = parseNetwork(bound)
  return network ? `${textOf(network.base)}/${bound.split('/')[1]}` : ''
}

/** Addresses in the order of their numbers; a text sort has .10 before .9. */
export const rank = (ip: string) => numberOf(ip) ?? -1

export interface Proposal {
  range_start: string
  range_end: string
  gateway: string
}

/**
 * What a subnet usually is: the gateway is the gateway's own address in it, or the first, and the half of the network
 * without it is handed out. The other half is left for what has an address of its own.
 */
export function propose(cidr: string, own: readonly string[]): Proposal {
  const network = parseNetwork(cidr)
  if (!network || network.size < 4) return { range_start: '', range_end: '', gateway: '' }
  const first = network.base + 1
  const last = network.base + network.size - 2
  const middle = network.base + network.size / 2
  const gateway = own.map(numberOf).find((ip): ip is number => ip !== null && holds(network, ip)) ?? first
  const [start, end] = gateway < middle ? [middle, last] : [first, middle - 1]
  return { range_start: textOf(start), range_end: textOf(end), gateway: textOf(gateway) }
}

/** The server of a service that clients are told: the gateway, where it answers on its address in the network. */
export function serverAt(gateway: string, own: readonly string[], listen: readonly string[]): string[] {
  const hears = [gateway, '0.0.0.0', '::'].some((one) => listen.includes(one))
  return own.includes(gateway) && hears ? [gateway] : []
}

/** A hardware address as people and devices write it. */
export function spellings(mac: string): string[] {
  const digits = mac.replaceAll(':', '')
  return [mac, mac.replaceAll(':', '-'), digits, digits.replace(/(.{4})(?=.)/g, '$1.')]
}

const hostname = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/i

/** A name that a client gave itself, where it can be a name at all. */
export const usableName = (name: string) => (hostname.test(name) ? name : '')
