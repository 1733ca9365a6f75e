import type { Certificate, Domain } from '../../api/types'
import type { Tone } from '../../kit/state/Notice'

const day = 86_400_000

/** The state of a certificate, or that there is none. Browsers do not trust a self-signed one. */
export type Standing = Certificate['status'] | 'self-signed' | 'none'

export const standingTone: Record<Standing, Tone> = {
  valid: 'live',
  expiring: 'warn',
  expired: 'bad',
  pending: 'warn',
  error: 'bad',
  'self-signed': 'warn',
  none: 'bad',
}

type Standable = Pick<Certificate, 'status' | 'source' | 'expires_at'>

export function standingOf(certificate: Standable | undefined): Standing {
  if (!certificate) return 'none'
  return certificate.source === 'self-signed' && certificate.status === 'valid' ? 'self-signed' : certificate.status
}

/** Whether it is more than an order. Until then visitors get a self-signed certificate. */
export const issued = ({ status }: Pick<Certificate, 'status'>) => status !== 'pending' && status !== 'error'

type Dated = Pick<Certificate, 'status' | 'expires_at'>

/** Whole days until it expires; negative afterwards. */
export function daysLeft({ status, expires_at }: Dated, now = Date.now()): number | null {
  return expires_at && issued({ status }) ? Math.trunc((Date.parse(expires_at) - now) / day) : null
}

/** Whether a name in a certificate covers a host name. A wildcard stands for exactly one label. */
export function covers(pattern: string, name: string): boolean {
  if (pattern === name) return true
  if (!pattern.startsWith('*.') || name.startsWith('*.')) return false
  return name.slice(name.indexOf('.') + 1) === pattern.slice(2)
}

type Coverable = Pick<Domain, 'name'> & { certificate_id: string | null }

/**
 * The certificate that the proxy serves for a domain: the domain's own choice, else a trusted one with the exact name,
 * else a trusted wildcard, else a self-signed one. Among several it takes the one that expires last.
 */
export function certificateOf(domain: Coverable, all: readonly Certificate[]): Certificate | undefined {
  const trusted = (one: Certificate) => one.source !== 'self-signed' && issued(one)
  const end = (one: Certificate) => (one.expires_at ? Date.parse(one.expires_at) : 0)
  const named = (one: Certificate) => one.names.includes(domain.name)
  const rank = (one: Certificate) => 2 * Number(trusted(one)) + Number(named(one))
  return (
    all.find(({ id }) => id === domain.certificate_id) ??
    all
      .filter(({ names }) => names.some((name) => covers(name, domain.name)))
      .toSorted((a, b) => rank(b) - rank(a) || end(b) - end(a))[0]
  )
}

/** Domains that are on but have no certificate: their visitors get a browser warning. */
export const withoutCertificate = (domains: readonly Domain[], all: readonly Certificate[]) =>
  domains.filter((domain) => domain.active && standingOf(certificateOf(domain, all)) === 'none')

type Lived = Dated & Pick<Certificate, 'not_before' | 'renew_at'>

/** How much of a certificate's lifetime is over, from 0 to 1, and where its renewal is; null before it is issued. */
export function lifeOf({ status, not_before, expires_at, renew_at }: Lived, now: number) {
  if (!not_before || !expires_at || !issued({ status })) return null
  const from = Date.parse(not_before)
  const place = (at: number) => Math.min(1, Math.max(0, (at - from) / (Date.parse(expires_at) - from)))
  return { spent: place(now), renewal: renew_at ? place(Date.parse(renew_at)) : null }
}
