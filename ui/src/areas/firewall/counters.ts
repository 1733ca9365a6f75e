import { useQuery } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { http, unwrap } from '../../api/client'
import type { Counter } from '../../api/types'

const every = 2000
/** A minute of rates. */
export const slots = 30

export interface Hits {
  /** In total, over all changes of the rules. */
  packets: number
  bytes: number
  /** Packets since the rule itself was last applied. */
  recent: number
  /** Packets per second, oldest first. */
  rates: readonly number[]
}

/** What the counters of the rules did in the last minute. After a reset they count from zero. */
export class HitHistory {
  private hits = new Map<string, Hits>()
  private at = 0
  private readonly listeners = new Set<() => void>()

  readonly subscribe = (listener: () => void) => {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  readonly of = (id: string) => this.hits.get(id)

  push(counters: readonly Counter[], at: number) {
    if (at <= this.at) return
    const seconds = (at - this.at) / 1000
    // After a longer pause the figures between are unknown: the line starts again.
    const first = seconds > 15
    const next = new Map<string, Hits>()
    for (const { rule_id, packets: recent, total_packets: packets, total_bytes: bytes } of counters) {
      const before = this.hits.get(rule_id)
      const grown = packets - (before && packets >= before.packets ? before.packets : 0)
      const rates = first || !before ? [] : [...before.rates, grown / seconds].slice(-slots)
      next.set(rule_id, { packets, bytes, recent, rates })
    }
    this.hits = next
    this.at = at
    for (const listener of this.listeners) listener()
  }
}

const history = new HitHistory()

/** Asks for the counters while a page shows them. */
export function useCounters() {
  const { data, dataUpdatedAt } = useQuery({
    queryKey: ['firewall', 'counters'],
    queryFn: () => unwrap(http.GET('/firewall/counters')),
    refetchInterval: every,
    structuralSharing: false,
  })
  useEffect(() => {
    if (data && !data[0]?.error) history.push(data, dataUpdatedAt)
  }, [data, dataUpdatedAt])
}

export function useHits(id: string): Hits | undefined {
  return useSyncExternalStore(history.subscribe, () => history.of(id))
}
