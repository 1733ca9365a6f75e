import { http, unwrap } from '../../api/client'
import { live } from '../../api/live'
import type { LiveRoute } from '../../api/types'

/** The protocol number that our routes carry. */
const ours = 250

export const liveRoutes = { kind: 'network.live-route', list: async () => live(await unwrap(http.GET('/routes/live'))) }

export const tableOf = ({ table, table_name }: LiveRoute) => table_name || String(table)
export const protocolOf = ({ protocol, protocol_name }: LiveRoute) => protocol_name || String(protocol)
export const isOurs = ({ protocol }: LiveRoute) => protocol === ours

/** A route has no name but its place; several may say the same. */
export const withIds = (routes: readonly LiveRoute[]) => routes.map((route, index) => ({ ...route, id: String(index) }))

/** The values that occur, to choose from, each once. */
export function valuesOf(routes: readonly LiveRoute[], of: (route: LiveRoute) => string) {
  return [...new Set(routes.map(of))].sort().map((value) => ({ value, label: value }))
}
