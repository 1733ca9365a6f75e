import type { TFunction } from 'i18next'
import { bytes } from '../../kit/text/format'
import { type BoundAddress, isManaged, type Link } from './links'
import type { Rate } from './rates'
import type { ZoneCounts } from './useLinks'

/** The kind of an interface, with what it is made of: VLAN 20 on eth0. */
export function kindWords({ declared, type, under }: Link, t: TFunction): string {
  if (!type) return t('network:kinds.unknown')
  if (type === 'vlan') return t('network:kinds.vlanOn', { id: declared?.vlan_id ?? '', parent: under[0] ?? '–' })
  const word = t(`network:kinds.${type}`)
  return under.length > 0 ? t('network:kinds.of', { kind: word, members: under.join(', ') }) : word
}

/** A zone's name with its counts, for its heading. */
export function zoneWords(zone: string | undefined, counts: ZoneCounts | undefined, t: TFunction): string {
  if (zone === undefined) return t('network:picture.noZone')
  const rules = counts && t('network:picture.rules', { count: counts.rules })
  const peers = counts && counts.peers > 0 && t('network:picture.peers', { count: counts.peers })
  return [zone, rules, peers].filter(Boolean).join(' · ')
}

/** A note about an address; empty for a managed one that is bound. */
export function addressMark({ kind, bound }: BoundAddress, t: TFunction): string {
  if (kind === 'manual') return t('network:address.kinds.manual')
  if (!bound) return t('network:address.notBound')
  return kind === 'vip' ? t('network:address.kinds.vip') : ''
}

export const rateWords = ({ rx, tx }: Rate) => ({ rx: `${bytes(rx)}/s`, tx: `${bytes(tx)}/s` })

/** Everything that a card shows as one sentence, for screen readers. */
export function cardWords(link: Link, rate: Rate | undefined, t: TFunction): string {
  const { name, state, addresses } = link
  return [
    name,
    kindWords(link, t),
    ...(isManaged(link) ? [] : [t('network:picture.notDeclared')]),
    t(`network:states.${state}`),
    ...addresses.map((one) => [one.text, addressMark(one, t)].filter(Boolean).join(' ')),
    ...(rate ? [t('network:picture.rate', rateWords(rate))] : []),
  ].join(', ')
}
