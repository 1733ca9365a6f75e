import type { Tone } from '../../kit/Notice'
import type { BoundAddress, Link } from './links'

export interface AddressRow extends BoundAddress {
  id: string
  /** The name of the link that has it, or should. */
  link: string
  tone: Tone
}

/** The addresses of all links, ours and those that somebody else bound. */
export function addressRows(links: readonly Link[]): AddressRow[] {
  return links.flatMap(({ name, declared, addresses }) =>
    addresses.map((address) => ({
      ...address,
      id: address.stored?.id ?? `${name} ${address.text}`,
      link: name,
      tone: address.bound ? 'live' : missing(address, declared?.active),
    })),
  )
}

/** In a cluster a virtual address may be with another node; that of an interface that is off is nowhere. */
function missing({ kind }: BoundAddress, active: boolean | undefined): Tone {
  if (!active) return 'off'
  return kind === 'vip' ? 'warn' : 'bad'
}
