import { http, unwrap } from '../../api/client'
import { live } from '../../api/live'
import type { LiveRoute } from '../../api/types'

/** The protocol number of the gateway's routes. */
const ours = 250

export const liveRoutes = { kind: 'network.live-route', list: async () => live(await unwrap(http.GET('/routes/live'))) }

export const tableOf = ({ table, table_name }: LiveRoute) => table_name || String(table)
export const protocolOf = ({ protocol, protocol_name }: LiveRoute) => protocol_name || String(protocol)
export const isOurs = ({ protocol }: LiveRoute) => protocol === ours

/** A route has no id, and several may be equal, so its position serves as one. */
export const withIds = (routes: readonly LiveRoute[]) => routes.map((route, index) => ({ ...route, id: String(index) }))

/** The distinct values, as choices. */
export function valuesOf(routes: readonly LiveRoute[], of: (route: LiveRoute) => string) {
  return [...new Set(routes.map(of))].sort().map((value) => ({ value, label: value }))
}
