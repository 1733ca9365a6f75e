import { describe, expect, it } from 'vitest'
import type { ClusterNode, ClusterStatus } from '../../api/types'
import { drawn, flowOf, joinedSteps, standingOf } from './standing'

const node = (id: string, more: Partial<ClusterNode> = {}) =>
  ({
    id,
    fqdn: `${id}.example`,
    role: 'standby',
    status: 'online',
    error: '',
    drift: [],
    streaming: true,
    ...more,
  }) as ClusterNode
const status = (local: ClusterNode, peers: ClusterNode[], more: Partial<ClusterStatus> = {}) =>
  ({ local_node: local, peers, health: 'OK', primary_id: '', ...more }) as ClusterStatus

const primary = node('b', { role: 'primary' })

describe('a node', () => {
  it('has the most important state', () => {
    expect(standingOf(node('a'))).toBe('online')
    expect(standingOf(node('a', { drift: ['ntp_pools'] }))).toBe('drift')
    expect(standingOf(node('a', { error: 'does not answer', drift: ['x'] }))).toBe('offline')
    expect(standingOf(node('a', { role: 'fenced' }))).toBe('fenced')
    expect(standingOf(node('a', { status: 'joining' }))).toBe('joining')
  })

  it('follows, lags, is disconnected or needs a repair', () => {
    expect(flowOf(node('a', { behind_bytes: 12_000, lag_seconds: 0.2 }), primary)).toBe('streaming')
    expect(flowOf(node('a', { lag_seconds: 31 }), primary)).toBe('behind')
    expect(flowOf(node('a', { behind_bytes: 17 * 1024 * 1024 }), primary)).toBe('behind')
    expect(flowOf(node('a', { streaming: false }), primary)).toBe('stopped')
    expect(flowOf(node('a', { streaming: false, slot_lost: true }), primary)).toBe('lost')
    expect(flowOf(node('a'), node('b', { role: 'primary', error: 'does not answer' }))).toBe('away')
  })

  it('joins step by step', () => {
    const steps = [
      undefined,
      node('a', { status: 'pending' }),
      node('a', { status: 'joining' }),
      node('a', { streaming: false }),
      node('a'),
    ]
    expect(steps.map(joinedSteps)).toEqual([1, 1, 2, 3, 4])
  })
})

describe('the picture', () => {
  it('starts with the primary, on every node', () => {
    const { first, others, headed } = drawn(status(node('c'), [node('a'), primary], { primary_id: 'b' }))
    expect([first.id, ...others.map(({ id }) => id), headed]).toEqual(['b', 'a', 'c', true])
  })

  it('starts with a primary that is away', () => {
    const away = node('b', { role: 'primary', status: 'offline' })
    expect(drawn(status(node('c'), [away])).first.id).toBe('b')
  })

  it('connects nothing while two nodes are the primary', () => {
    const { first, headed } = drawn(
      status(node('c', { role: 'fenced' }), [node('b', { role: 'primary' })], { health: 'split-brain' }),
    )
    expect([first.id, headed]).toEqual(['c', false])
  })
})
