import { expect, it } from 'vitest'
import i18n from '../../i18n/i18n'
import { natMatch, natShape, natTarget } from './nat-text'
import './texts'

const t = i18n.getFixedT('en', 'firewall')
const rule = {
  kind: 'dnat' as const,
  in_zone: 'wan',
  out_zone: 'any',
  protocol: 'tcp' as const,
  src_cidr: '',
  dst_cidr: '',
  dst_port: 443,
  dst_port_end: null,
  target_address: '10.0.0.5',
  target_port: 8443,
  target_port_end: null,
}

const said = (one: object) => `${natMatch(one as never, t)} → ${natTarget(one as never, t)}`

it('says what a NAT rule does', () => {
  expect(said(rule)).toBe('tcp 443 from wan to this gateway → 10.0.0.5:8443')
  expect(
    said({ ...rule, dst_port: 5000, dst_port_end: 5010, target_address: '2001:db8::5', target_port_end: 8453 }),
  ).toBe('tcp 5000–5010 from wan to this gateway → [2001:db8::5]:8443–8453')
  const out = { ...rule, in_zone: 'lan', out_zone: 'wan', protocol: 'any' as const, dst_port: null, target_port: null }
  expect(said({ ...out, kind: 'masquerade', target_address: '' })).toBe(
    'everything from lan to wan → address of the outgoing interface',
  )
  expect(said({ ...out, kind: 'snat', src_cidr: '10.0.0.0/8' })).toBe(
    'everything from lan 10.0.0.0/8 to wan → source 10.0.0.5',
  )
})

it('clears fields that the kind does not have', () => {
  expect(natShape.write({ ...rule, kind: 'masquerade', out_zone: 'wan' })).toMatchObject({
    out_zone: 'wan',
    target_address: null,
    target_port: null,
    dst_port: 443,
  })
  expect(natShape.write({ ...rule, out_zone: 'wan' })).toMatchObject({ out_zone: 'any', src_cidr: null })
  expect(natShape.write({ ...rule, protocol: 'any' })).toMatchObject({ dst_port: null, target_port: null })
})
