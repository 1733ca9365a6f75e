import { useQuery } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { http, unwrap } from '../../api/client'
import type { Counter } from '../../api/types'

const every = 2000
/** A minute of rates. */
export const slots = 30

export interface Hits {
  packets: number
  bytes: number
  /** Packets per second, oldest first. */
  rates: readonly number[]
}

/**
 * What the counters of the rules did in the last minute. They begin again at zero with every apply, so that a
 * smaller figure than before counts from there.
 */
export class HitHistory {
  private hits = new Map<string, Hits>()
  private at = 0
  private readonly listeners = new Set<() => void>()

  readonly subscribe = (listener: () => void) => {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  readonly of = (id: string) => this.hits.get(id)

  push(counters: readonly Pick<Counter, 'rule_id' | 'packets' | 'bytes'>[], at: number) {
    if (at <= this.at) return
    const seconds = (at - this.at) / 1000
    // After a longer pause the figures between are unknown: the line begins anew.
    const first = seconds > 15
    const next = new Map<string, Hits>()
    for (const { rule_id, packets, bytes } of counters) {
      const before = this.hits.get(rule_id)
      const grown = packets - (before && packets >= before.packets ? before.packets : 0)
      const rates = first || !before ? [] : [...before.rates, grown / seconds].slice(-slots)
      next.set(rule_id, { packets, bytes, rates })
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
