import type { LiveLink } from '../../api/types'

export interface Rate {
  /** Bytes per second. */
  rx: number
  tx: number
}

export interface Sample {
  at: number
  links: LiveLink[]
  rates: Record<string, Rate>
}

/** After a longer pause an average would be misleading. */
const longest = 15_000

/** Each interface's rates since the previous sample. A smaller counter was reset, so it gives no rate. */
export function sample(links: LiveLink[], at: number, before: Sample | undefined): Sample {
  const seconds = before && at > before.at && at - before.at <= longest ? (at - before.at) / 1000 : 0
  const earlier = new Map(before?.links.map((one) => [one.ifindex, one]))
  const rates: Record<string, Rate> = {}
  for (const link of links) {
    const was = earlier.get(link.ifindex)
    if (!was || seconds === 0 || link.rx_bytes < was.rx_bytes || link.tx_bytes < was.tx_bytes) continue
    rates[link.ifname] = {
      rx: (link.rx_bytes - was.rx_bytes) / seconds,
      tx: (link.tx_bytes - was.tx_bytes) / seconds,
    }
  }
  return { at, links, rates }
}
