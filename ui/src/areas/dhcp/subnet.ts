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

/** Parses a network; null while it is incomplete. */
function parseNetwork(cidr: string): Network | null {
  const [text = '', bits = ''] = cidr.trim().split('/')
  const ip = numberOf(text)
  if (ip === null || !/^([12]?\d|3[0-2])$/.test(bits)) return null
  const size = 2 ** (32 - Number(bits))
  return { base: Math.floor(ip / size) * size, size }
}

const holds = ({ base, size }: Network, ip: number) => ip >= base && ip < base + size

/** The network of an address such as 10.10.0.1/24. */
export function networkOf(bound: string): string {
  const network = parseNetwork(bound)
  return network ? `${textOf(network.base)}/${bound.split('/')[1]}` : ''
}

/** Sorts addresses by number; as text, .10 would come before .9. */
export const rank = (ip: string) => numberOf(ip) ?? -1

export interface Proposal {
  range_start: string
  range_end: string
  gateway: string
}

/**
 * Suggests values for a subnet. The gateway is the gateway's own address in it, else the first one. The range is the
 * half of the network without the gateway; the other half stays free for static addresses.
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

/** The server to announce for a service: the gateway, if the service listens on its address in the network. */
export function serverAt(gateway: string, own: readonly string[], listen: readonly string[]): string[] {
  const hears = [gateway, '0.0.0.0', '::'].some((one) => listen.includes(one))
  return own.includes(gateway) && hears ? [gateway] : []
}

/** The common spellings of a MAC address. */
export function spellings(mac: string): string[] {
  const digits = mac.replaceAll(':', '')
  return [mac, mac.replaceAll(':', '-'), digits, digits.replace(/(.{4})(?=.)/g, '$1.')]
}

const hostname = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/i

/** The name that a client sent, if it is a valid host name. */
export const usableName = (name: string) => (hostname.test(name) ? name : '')
