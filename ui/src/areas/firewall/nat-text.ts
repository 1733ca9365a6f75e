import type { TFunction } from 'i18next'
import type { NatRule } from '../../api/types'
import type { Values } from '../../kit/form/fields'
import { span } from './book'

type Said = Pick<
  NatRule,
  | 'kind'
  | 'in_zone'
  | 'out_zone'
  | 'protocol'
  | 'src_cidr'
  | 'dst_cidr'
  | 'dst_port'
  | 'dst_port_end'
  | 'target_address'
  | 'target_port'
  | 'target_port_end'
>

/** What a NAT rule matches: tcp 443 from wan to this gateway. */
export function natMatch(rule: Said, t: TFunction): string {
  const zone = (name: string) => (name === 'any' ? '' : name)
  const traffic = rule.protocol === 'any' ? t('nat.say.everything') : rule.protocol
  const from = [zone(rule.in_zone), rule.src_cidr].filter(Boolean).join(' ')
  const to = [zone(rule.out_zone), rule.dst_cidr].filter(Boolean).join(' ')
  return [
    rule.dst_port ? `${traffic} ${span(rule.dst_port, rule.dst_port_end)}` : traffic,
    t('nat.say.from', { place: from || t('nat.say.anywhere') }),
    t('nat.say.to', { place: to || t(rule.kind === 'dnat' ? 'nat.say.gateway' : 'nat.say.anywhere') }),
  ].join(' ')
}

/** What it rewrites that to: 10.0.0.5:8443. */
export function natTarget(
  { kind, target_address: address, target_port: port, target_port_end: end }: Said,
  t: TFunction,
): string {
  if (kind === 'masquerade') return t('nat.say.masquerade')
  const place = port && address.includes(':') ? `[${address}]` : address
  const full = port ? `${place}:${span(port, end)}` : place
  return kind === 'snat' ? t('nat.say.source', { address: full }) : full
}

export const isKind =
  (...kinds: string[]) =>
  (values: Values) =>
    kinds.includes(String(values.kind))
export const hasPorts = (values: Values) => values.protocol !== 'any'

/** Fields that the kind does not have must be empty. */
export const natShape = {
  read: (rule: Values): Values => rule,
  write: (values: Values): Values => {
    const body = { ...values }
    if (body.kind === 'masquerade') body.target_address = null
    if (body.kind === 'dnat') body.out_zone = 'any'
    if (body.kind === 'masquerade' || !hasPorts(body)) body.target_port = body.target_port_end = null
    if (!hasPorts(body)) body.dst_port = body.dst_port_end = null
    for (const name of ['src_cidr', 'dst_cidr', 'target_address']) body[name] ||= null
    return body
  },
}
