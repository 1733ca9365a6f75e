import { describe, expect, it } from 'vitest'
import type { Certificate, Domain } from '../../api/types'
import { certificateOf, covers, daysLeft, lifeOf, standingOf, withoutCertificate } from './standing'

const certificate = (part: Partial<Certificate>) =>
  ({
    id: 'c',
    names: [],
    source: 'acme',
    status: 'valid',
    domain_id: null,
    expires_at: '2026-12-01T00:00:00Z',
    ...part,
  }) as Certificate
const domain = { name: 'www.example.net', certificate_id: null }

it('lets a wildcard stand for exactly one label', () => {
  expect(covers('*.example.net', 'www.example.net')).toBe(true)
  expect(covers('*.example.net', 'example.net')).toBe(false)
  expect(covers('*.example.net', 'a.www.example.net')).toBe(false)
  expect(covers('*.example.net', '*.example.net')).toBe(true)
  expect(covers('*.net', '*.example.net')).toBe(false)
  expect(covers('www.example.net', 'www.example.net')).toBe(true)
})

describe('the certificate of a domain', () => {
  const exact = (part: Partial<Certificate>) => certificate({ names: ['www.example.net'], ...part })

  it('is the chosen one, then one with the exact name, then a wildcard', () => {
    const chosen = certificate({ id: 'chosen' })
    const named = exact({ id: 'named' })
    const pending = exact({ id: 'pending', status: 'pending' })
    const wild = certificate({ id: 'wild', names: ['*.example.net'] })
    const all = [wild, named, chosen]
    expect(certificateOf({ ...domain, certificate_id: 'chosen' }, all)?.id).toBe('chosen')
    expect(certificateOf(domain, all)?.id).toBe('named')
    expect(certificateOf(domain, [chosen, wild])?.id).toBe('wild')
    expect(certificateOf(domain, [pending, wild])?.id).toBe('wild')
    expect(certificateOf(domain, [pending, chosen])?.id).toBe('pending')
    expect(certificateOf(domain, [chosen])).toBeUndefined()
  })

  it('is a trusted one that expires late, if there is a choice', () => {
    const signed = exact({ id: 'signed', source: 'self-signed', expires_at: '2036-01-01T00:00:00Z' })
    const short = exact({ id: 'short', expires_at: '2026-11-20T00:00:00Z' })
    const long = exact({ id: 'long' })
    const pending = exact({ id: 'pending', status: 'pending', expires_at: '2027-01-01T00:00:00Z' })
    expect(certificateOf(domain, [signed, short, pending, long])?.id).toBe('long')
    expect(certificateOf(domain, [pending, signed])?.id).toBe('signed')
  })
})

it('distinguishes an untrusted certificate from none', () => {
  expect(standingOf(certificate({ source: 'self-signed' }))).toBe('self-signed')
  expect(standingOf(certificate({ source: 'self-signed', status: 'expired' }))).toBe('expired')
  expect(standingOf(undefined)).toBe('none')
})

it('counts the days left', () => {
  const now = Date.parse('2026-11-15T12:00:00Z')
  expect(daysLeft(certificate({}), now)).toBe(15)
  expect(daysLeft(certificate({ expires_at: '2026-11-14T00:00:00Z' }), now)).toBe(-1)
  expect(daysLeft(certificate({ expires_at: null }), now)).toBeNull()
  expect(daysLeft(certificate({ status: 'error' }), now)).toBeNull()
})

it("computes the current point and the renewal in a certificate's lifetime", () => {
  const life = {
    status: 'valid' as const,
    not_before: '2026-01-01T00:00:00Z',
    expires_at: '2026-01-11T00:00:00Z',
    renew_at: '2026-01-08T12:00:00Z',
  }
  expect(lifeOf(life, Date.parse('2026-01-06T00:00:00Z'))).toEqual({ spent: 0.5, renewal: 0.75 })
  expect(lifeOf(life, Date.parse('2027-01-06T00:00:00Z'))?.spent).toBe(1)
  expect(lifeOf({ ...life, not_before: null }, 0)).toBeNull()
  expect(lifeOf({ ...life, status: 'pending' }, 0)).toBeNull()
})

it('lists domains that are on and have no certificate', () => {
  const domains = [
    { ...domain, active: true },
    { ...domain, name: 'bare.example.com', active: true },
    { ...domain, name: 'off.example.com', active: false },
  ] as unknown as Domain[]
  const all = [certificate({ names: ['*.example.net'] })]
  expect(withoutCertificate(domains, all).map(({ name }) => name)).toEqual(['bare.example.com'])
})
