import { queryOptions, useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { http, unwrap } from '../../api/client'
import type { Backend, ProxyStats, Server } from '../../api/types'
import type { Tone } from '../../kit/state/Notice'

export const statsQuery = queryOptions({
  queryKey: ['proxy', 'stats'],
  queryFn: () => unwrap(http.GET('/proxy/stats')),
  refetchInterval: 3000,
})

export type Stat = ProxyStats['backends'][number]

/** The state of a backend or a server, as far as known. */
export type Health = 'up' | 'degraded' | 'down' | 'maint' | 'drain' | 'unchecked' | 'unknown' | 'off' | 'empty'

export const healthTone: Record<Health, Tone> = {
  up: 'live',
  degraded: 'warn',
  down: 'bad',
  maint: 'off',
  drain: 'warn',
  unchecked: 'off',
  unknown: 'off',
  off: 'off',
  empty: 'bad',
}

const healths: Record<Stat['status'], Health> = {
  UP: 'up',
  DEGRADED: 'degraded',
  DOWN: 'down',
  MAINT: 'maint',
  DRAIN: 'drain',
  'NO CHECK': 'unchecked',
}

/** HAProxy's name for the statistics row of a whole backend. */
export const whole = 'BACKEND'

/** A server's name in HAProxy. */
const word = (name: string) => name.replace(/[ .]/g, '_')

/** The live state of backends and their servers. */
export class Live {
  private readonly rows: Map<string, Stat>
  readonly error: string

  constructor(stats: Pick<ProxyStats, 'backends' | 'error'> | undefined) {
    this.rows = new Map((stats?.backends ?? []).map((row) => [`${row.backend_id} ${row.server}`, row]))
    this.error = stats?.error ?? ''
  }

  backend = (id: string) => this.rows.get(`${id} ${whole}`)
  server = ({ backend_id, name }: Pick<Server, 'backend_id' | 'name'>) => this.rows.get(`${backend_id} ${word(name)}`)

  healthOf({ id, active }: Pick<Backend, 'id' | 'active'>, servers: readonly Pick<Server, 'active'>[]): Health {
    if (!active) return 'off'
    if (!servers.some((server) => server.active)) return 'empty'
    const row = this.backend(id)
    return row ? (healths[row.status] ?? 'unknown') : 'unknown'
  }

  healthOfServer(server: Pick<Server, 'backend_id' | 'name' | 'active'>): Health {
    if (!server.active) return 'off'
    const row = this.server(server)
    return row ? (healths[row.status] ?? 'unknown') : 'unknown'
  }
}

export const healthOfStatus = (status: Stat['status']): Health => healths[status] ?? 'unknown'

/** Sorts rows by backend name, with each backend before its servers. */
export function arranged(rows: readonly Stat[], nameOf: (row: Stat) => string): Stat[] {
  const rank = (row: Stat) => (row.server === whole ? '' : row.server)
  return rows.toSorted((a, b) => nameOf(a).localeCompare(nameOf(b)) || rank(a).localeCompare(rank(b)))
}

export function useLive(): Live {
  const { data } = useQuery(statsQuery)
  return useMemo(() => new Live(data), [data])
}

/** The result of a health check, without HAProxy's mark for a running one: * L4CON. */
export const checkCode = ({ check_status }: Pick<Stat, 'check_status'>) => check_status.replace(/^\* ?/, '')
