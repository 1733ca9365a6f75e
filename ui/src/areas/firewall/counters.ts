import { useQuery } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { http, unwrap } from '../../api/client'
import type { Counter } from '../../api/types'

const every = 2000
/** A minute of rates. */
export const slots = 30

export interface Hits {
  /** The totals, across all changes of the rules. */
  packets: number
  bytes: number
  /** Packets since the rule was last applied. */
  recent: number
  /** Packets per second, oldest first. */
  rates: readonly number[]
}

/** Each rule's counters and its rates in the last minute. A reset restarts them at zero. */
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
    // After a longer pause the rates in between are unknown, so start again.
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

/** Polls the counters while a page shows them. */
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
