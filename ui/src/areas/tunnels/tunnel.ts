import type { NatRule, Tunnel } from '../../api/types'
import type { Values } from '../../kit/form/fields'
import { holds, type Prefix, parsePrefix, textOf } from './prefix'

export const listOf = (text: unknown) =>
  String(text ?? '')
    .split(',')
    .filter(Boolean)
const joined = (list: unknown) => (Array.isArray(list) ? list.join(',') : '')

/** Lists are comma-separated text in the API, and several entries in a form. */
function shapeOf(lists: readonly string[], write: (values: Values) => Values) {
  const each = (values: Values, change: (value: unknown) => unknown) => ({
    ...values,
    ...Object.fromEntries(lists.filter((name) => name in values).map((name) => [name, change(values[name])])),
  })
  return { read: (row: Values): Values => each(row, listOf), write: (values: Values) => write(each(values, joined)) }
}

export const everything = ['0.0.0.0/0', '::/0']
const keepalive = 25

/** Fields of the other mode are cleared. */
export const tunnelShape = shapeOf(['address_cidr', 'client_routes', 'dns', 'upstream_allowed_ips'], (values) => ({
  ...values,
  listen_port: values.listen_port ?? 0,
  ...(values.mode === 'client'
    ? { client_routes: '', dns: '', endpoint_host: '', upstream_keepalive: values.upstream_keepalive ?? 0 }
    : {
        upstream_public_key: '',
        upstream_endpoint: '',
        upstream_preshared_key: '',
        upstream_allowed_ips: joined(everything),
        upstream_keepalive: keepalive,
      }),
}))

/** A peer of this tunnel. Without a public key, the gateway generates a pair. */
export const peerShape = (tunnel: string) =>
  shapeOf(['allowed_ips'], ({ key, ...values }) => ({
    ...values,
    interface_id: tunnel,
    keepalive: values.keepalive ?? 0,
    ...(key === 'made' && { public_key: '' }),
  }))

/** A preshared key: 256 random bits. */
export const randomKey = () => btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))

const firstFree = (taken: (n: number) => boolean, from = 0): number => (taken(from) ? firstFree(taken, from + 1) : from)

/** Suggests values for a new tunnel: the next name, an unused network, the next port. */
export function propose(rows: readonly Pick<Tunnel, 'name' | 'address_cidr' | 'listen_port'>[]): Values {
  const n = firstFree((one) => rows.some(({ name }) => name === `wg${one}`))
  const third = firstFree((one) => rows.some(({ address_cidr }) => address_cidr.includes(`10.8.${one}.`)))
  return {
    name: `wg${n}`,
    address_cidr: `10.8.${third}.1/24`,
    listen_port: firstFree((port) => rows.some(({ listen_port }) => listen_port === port), 51_820),
  }
}

/** Whether its peers send all traffic of that address family through it, including to the internet. */
const isFull = ({ mode, client_routes }: Tunnel, { width }: Prefix) =>
  mode === 'server' && listOf(client_routes).includes(width === 32 ? '0.0.0.0/0' : '::/0')

/** IPv6 addresses that are routed on the internet and need no masquerade. */
const globalV6 = '2000::/3'

type Masquerade = Pick<NatRule, 'kind' | 'enabled' | 'in_zone' | 'out_zone' | 'protocol' | 'src_cidr' | 'dst_cidr'>

/**
 * The first network of a full tunnel whose packets would leave for the internet with private addresses; none if
 * masquerade rules cover them.
 */
export function unmasked(tunnel: Tunnel, rules: readonly Masquerade[], zone: string | undefined): string | undefined {
  const outward = rules.filter(
    (rule) =>
      rule.kind === 'masquerade' &&
      rule.enabled &&
      rule.protocol === 'any' &&
      !rule.dst_cidr &&
      ['any', 'wan'].includes(rule.out_zone) &&
      ['any', zone].includes(rule.in_zone),
  )
  const within = (cidr: string, network: Prefix) => {
    const around = parsePrefix(cidr)
    return !!around && holds(around, network)
  }
  const answered = (network: Prefix) =>
    within(globalV6, network) || outward.some(({ src_cidr }) => !src_cidr || within(src_cidr, network))
  const network = listOf(tunnel.address_cidr)
    .map(parsePrefix)
    .find((one) => one && isFull(tunnel, one) && !answered(one))
  return network ? textOf(network) : undefined
}
