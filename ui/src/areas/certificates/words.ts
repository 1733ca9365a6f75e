import type { Certificate, DnsProvider } from '../../api/types'

export type ErrorKind = Exclude<Certificate['error_kind'], ''>

/** The kinds of DNS provider, and the fields that each needs. */
export const providerFields: Record<DnsProvider['kind'], readonly string[]> = {
  rfc2136: ['server', 'username', 'algorithm'],
  cloudflare: [],
  desec: [],
  digitalocean: [],
  hetzner: [],
  httpreq: ['endpoint', 'username'],
}

export const providerKinds = Object.keys(providerFields) as DnsProvider['kind'][]

/** A wildcard can only be validated through DNS. */
export const needsDns = (names: unknown) => Array.isArray(names) && names.some((name) => String(name).startsWith('*.'))
