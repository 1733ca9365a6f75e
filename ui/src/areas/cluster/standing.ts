import type { ClusterNode, ClusterStatus } from '../../api/types'
import type { Tone } from '../../kit/state/Notice'

/** Whether a node has yet to join. */
export const isExpected = ({ status }: ClusterNode) => status === 'pending' || status === 'joining'

/** A node's state as a text key: its status, or what it is busy with. */
export function standingOf(node: ClusterNode): string {
  if (isExpected(node) || node.status === 'leaving') return node.status
  if (node.status === 'offline' || node.error) return 'offline'
  if (node.role === 'stepping-down' || node.role === 'fenced') return node.role
  if (node.repair?.state === 'running') return 'syncing'
  if (node.drift.length > 0) return 'drift'
  return 'online'
}

export const standingTone: Record<string, Tone> = {
  pending: 'off',
  joining: 'warn',
  leaving: 'warn',
  offline: 'bad',
  'stepping-down': 'warn',
  fenced: 'bad',
  syncing: 'warn',
  drift: 'bad',
  online: 'live',
}

/** The state of replication to a node. Without an answer from both ends it is unknown. */
export function flowOf(
  node: ClusterNode,
  primary: ClusterNode,
): 'expected' | 'away' | 'lost' | 'stopped' | 'behind' | 'streaming' {
  if (isExpected(node)) return 'expected'
  if ([node, primary].some((one) => standingOf(one) === 'offline')) return 'away'
  if (node.slot_lost) return 'lost'
  if (!node.streaming) return 'stopped'
  return (node.behind_bytes ?? 0) > 16 * 1024 * 1024 || (node.lag_seconds ?? 0) > 30 ? 'behind' : 'streaming'
}

export const flowTone: Record<ReturnType<typeof flowOf>, Tone> = {
  expected: 'off',
  away: 'bad',
  lost: 'bad',
  stopped: 'bad',
  behind: 'warn',
  streaming: 'live',
}

/** The node to draw first: the primary, or this node if there is none or several. The others follow by name. */
export function drawn(status: ClusterStatus): { first: ClusterNode; others: ClusterNode[]; headed: boolean } {
  const all = [status.local_node, ...status.peers]
  const primary =
    all.find(({ id }) => id === status.primary_id) ?? all.find((n) => n.role === 'primary' && !isExpected(n))
  const first = status.health === 'split-brain' ? status.local_node : (primary ?? status.local_node)
  const others = all.filter((node) => node !== first).sort((a, b) => a.fqdn.localeCompare(b.fqdn))
  return { first, others, headed: first === primary && status.health !== 'split-brain' }
}

/** How far a new node is: the number of steps done, of created, joining, registered and following. */
export function joinedSteps(node: ClusterNode | undefined): number {
  if (!node || node.status === 'pending') return 1
  if (node.status === 'joining') return 2
  return node.streaming ? 4 : 3
}
