import type { Certificate, Domain } from '../../api/types'
import type { Tone } from '../../kit/Notice'

const day = 86_400_000

/** How a certificate stands, or that there is none. One that the gateway signed itself is none that browsers trust. */
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

/** Whether it is more than an order; until then visitors are shown one that the gateway signed itself. */
export const issued = ({ status }: Pick<Certificate, 'status'>) => status !== 'pending' && status !== 'error'

type Dated = Pick<Certificate, 'status' | 'expires_at'>

/** Whole days until it is over; negative when it is. */
export function daysLeft({ status, expires_at }: Dated, now = Date.now()): number | null {
  return expires_at && issued({ status }) ? Math.trunc((Date.parse(expires_at) - now) / day) : null
}

/** Whether a name in a certificate stands for a host name: a wildcard for one label, not for the name under it. */
export function covers(pattern: string, name: string): boolean {
  if (pattern === name) return true
  if (!pattern.startsWith('*.') || name.startsWith('*.')) return false
  return name.slice(name.indexOf('.') + 1) === pattern.slice(2)
}

type Coverable = Pick<Domain, 'id' | 'name'> & { certificate_id: string | null }

/**
 * The certificate that visitors of a domain are shown: the one that was chosen, else the one that was made for it, else
 * one that has its name. Of several, one that browsers trust comes first, then the one that lasts longest.
 */
export function certificateOf(domain: Coverable, all: readonly Certificate[]): Certificate | undefined {
  const chosen = all.find(({ id }) => id === domain.certificate_id)
  if (chosen) return chosen
  const rank = (one: Certificate) => [
    issued(one) && one.source !== 'self-signed' && one.status !== 'expired' ? 1 : 0,
    one.expires_at ? Date.parse(one.expires_at) : 0,
  ]
  const best = (some: Certificate[]) =>
    some.toSorted((a, b) => {
      const [a1 = 0, a2 = 0] = rank(a)
      const [b1 = 0, b2 = 0] = rank(b)
      return b1 - a1 || b2 - a2
    })[0]
  const own = best(all.filter(({ domain_id }) => domain_id === domain.id))
  return own ?? best(all.filter(({ names }) => names.some((name) => covers(name, domain.name))))
}

type Lived = Dated & Pick<Certificate, 'not_before' | 'renew_at'>

/** How far a certificate is through its life, from 0 to 1, with the place of its renewal; null before it is issued. */
export function lifeOf({ status, not_before, expires_at, renew_at }: Lived, now: number) {
  if (!not_before || !expires_at || !issued({ status })) return null
  const from = Date.parse(not_before)
  const place = (at: number) => Math.min(1, Math.max(0, (at - from) / (Date.parse(expires_at) - from)))
  return { spent: place(now), renewal: renew_at ? place(Date.parse(renew_at)) : null }
}
