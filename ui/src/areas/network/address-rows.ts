import type { VipStatus } from '../../api/types'
import type { Tone } from '../../kit/state/Notice'
import type { BoundAddress, Link } from './links'

export interface AddressRow extends BoundAddress {
  id: string
  /** The interface that has it, or should have it. */
  link: string
  /** Whether it is bound here, bound on another node, or not bound. */
  state: 'bound' | 'elsewhere' | 'notBound'
  tone: Tone
}

/** The addresses of all interfaces, managed and unmanaged. In a cluster, a virtual address may be on another node. */
export function addressRows(links: readonly Link[], vip?: VipStatus): AddressRow[] {
  return links.flatMap(({ name, declared, addresses }) =>
    addresses.map((address) => {
      const kind = vip?.addresses.includes(address.text.split('/')[0] ?? '') ? 'vip' : address.kind
      const elsewhere = kind === 'vip' && !address.bound && vip?.clustered === true && vip.state !== 'master'
      return {
        ...address,
        kind,
        id: address.stored?.id ?? `${name} ${address.text}`,
        link: name,
        state: address.bound ? 'bound' : elsewhere ? 'elsewhere' : 'notBound',
        tone: address.bound ? 'live' : elsewhere || !declared?.active ? 'off' : 'bad',
      }
    }),
  )
}

/** Splits an address with its prefix length, such as 10.20.0.1/24. */
export function withPrefix(text: string) {
  const [, address, prefix] = /^\s*([0-9a-fA-F:.]+)\/(\d{1,3})\s*$/.exec(text) ?? []
  return address && prefix ? { address, prefix: Number(prefix) } : undefined
}
