import type { Values } from '../../kit/form/fields'

export type ConfProblem = 'noInterface' | 'noPeer' | 'manyPeers' | 'noEndpoint'

export interface Conf {
  /** The fields of a tunnel, as in the API. */
  values: Values
  /** Sent, but never shown. */
  secrets: Values
  /** Settings that are not imported, above all commands. */
  left: string[]
}

type Section = Map<string, { name: string; value: string }>

/** The sections of a file. A repeated setting becomes one list. */
function sections(text: string): { interface?: Section; peers: Section[] } {
  const found: { interface?: Section; peers: Section[] } = { peers: [] }
  let here: Section | undefined
  for (const line of text.split(/\r?\n/)) {
    const bare = line.replace(/#.*/, '').trim()
    const title = /^\[(\w+)\]$/.exec(bare)?.[1]?.toLowerCase()
    const [, name, value = ''] = /^(\w+)\s*=\s*(.+)$/.exec(bare) ?? []
    if (title) {
      here = (title === 'interface' && found.interface) || new Map()
      if (title === 'interface') found.interface = here
      if (title === 'peer') found.peers.push(here)
    } else if (name && here) {
      const before = here.get(name.toLowerCase())?.value
      here.set(name.toLowerCase(), { name, value: before ? `${before},${value}` : value })
    }
  }
  return found
}

const listed = (text = '') => text.split(/[\s,]+/).filter(Boolean)

/** An address without a length is a single host. */
const withLength = (address: string) =>
  address.includes('/') ? address : `${address}/${address.includes(':') ? 128 : 32}`

const taken = {
  interface: ['privatekey', 'address', 'mtu', 'listenport'],
  peer: ['publickey', 'presharedkey', 'endpoint', 'allowedips', 'persistentkeepalive'],
}

/** Parses a provider's configuration as a client of one upstream. Commands are left out; nothing is run. */
export function readConf(text: string): Conf | ConfProblem {
  const { interface: own, peers } = sections(text)
  const [peer] = peers
  if (!own) return 'noInterface'
  if (!peer) return 'noPeer'
  if (peers.length > 1) return 'manyPeers'
  const of = (section: Section, name: string) => section.get(name)?.value ?? ''
  const number = (section: Section, name: string) => Number.parseInt(of(section, name), 10) || 0
  if (!of(peer, 'publickey') || !of(peer, 'endpoint')) return 'noEndpoint'
  const left = (section: Section, known: string[]) =>
    [...section].filter(([key]) => !known.includes(key)).map(([, { name }]) => name)
  const secrets = { private_key: of(own, 'privatekey'), upstream_preshared_key: of(peer, 'presharedkey') }
  return {
    values: {
      mode: 'client',
      address_cidr: listed(of(own, 'address')).map(withLength).join(','),
      listen_port: number(own, 'listenport'),
      mtu: number(own, 'mtu') || null,
      upstream_public_key: of(peer, 'publickey'),
      upstream_endpoint: of(peer, 'endpoint'),
      upstream_allowed_ips: listed(of(peer, 'allowedips')).map(withLength).join(','),
      upstream_keepalive: number(peer, 'persistentkeepalive'),
    },
    secrets: Object.fromEntries(Object.entries(secrets).filter(([, secret]) => secret)),
    left: [...left(own, taken.interface), ...left(peer, taken.peer)],
  }
}
