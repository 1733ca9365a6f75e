import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Stream } from './stream'

class FakeSocket {
  static all: FakeSocket[] = []
  onopen = () => {}
  onmessage = (_: { data: string }) => {}
  onclose = () => {}
  closed = false

  constructor(readonly url: URL) {
    FakeSocket.all.push(this)
  }

  send(...items: object[]) {
    for (const item of items) this.onmessage({ data: JSON.stringify(item) })
    vi.advanceTimersByTime(50)
  }

  close() {
    this.closed = true
  }
}

const latest = () => FakeSocket.all.at(-1)!

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000 })
  FakeSocket.all = []
  vi.stubGlobal('WebSocket', FakeSocket)
})
afterEach(() => vi.useRealTimers())

function connect(limit?: number) {
  const stream = new Stream<{ id: string; n?: number }>('/audit/live', { key: (item) => item.id, limit })
  const stop = stream.subscribe(() => {})
  latest().onopen()
  return { stream, stop, ids: () => stream.snapshot().items.map((item) => item.id) }
}

describe('a stream', () => {
  it('unpacks frames with several items, and reports what was left out', () => {
    const stream = new Stream<{ id: string }>('/log/live', {
      key: (item) => item.id,
      unpack: ({ events, dropped }: { events: { id: string }[]; dropped: number }) => ({ items: events, dropped }),
    })
    stream.subscribe(() => {})
    latest().onopen()
    latest().send({ events: [{ id: 'a' }, { id: 'b' }], dropped: 0 }, { events: [], dropped: 7 })
    expect(stream.snapshot()).toMatchObject({ items: [{ id: 'a' }, { id: 'b' }], dropped: 7 })
  })

  it('keeps one item per key in the order of arrival, up to its limit', () => {
    const { stream, ids } = connect(3)
    latest().send({ id: 'a' }, { id: 'b' }, { id: 'a', n: 2 }, { id: 'c' })
    expect(ids()).toEqual(['a', 'b', 'c'])
    expect(stream.snapshot().items[0]).toEqual({ id: 'a', n: 2 })
    latest().send({ id: 'd' })
    expect(ids()).toEqual(['b', 'c', 'd'])
  })

  it('tells since when the connection is lost, keeps its items, and reconnects', () => {
    const { stream, ids } = connect()
    latest().send({ id: 'a' })
    vi.advanceTimersByTime(5000)
    latest().onclose()
    expect(stream.snapshot()).toMatchObject({ status: 'lost', since: Date.now() })
    expect(ids()).toEqual(['a'])
    vi.advanceTimersByTime(1000)
    expect(FakeSocket.all).toHaveLength(2)
    latest().onopen()
    expect(stream.snapshot().status).toBe('live')
  })

  it('replaces its items with the snapshot of a new connection', () => {
    const { ids } = connect()
    latest().send({ id: 'a' }, { id: 'b' })
    latest().onclose()
    vi.advanceTimersByTime(1000)
    latest().onopen()
    latest().send({ id: 'b' }, { id: 'c' })
    expect(ids()).toEqual(['b', 'c'])
  })

  it('asks for heartbeats, which are not items', () => {
    const { ids } = connect()
    expect(latest().url.search).toBe('?heartbeat=5')
    latest().send({ id: 'a' }, { heartbeat: '2026-01-01T00:00:00Z' })
    expect(ids()).toEqual(['a'])
  })

  it('stays live while it receives something, and is lost if an open connection is silent', () => {
    const { stream, ids } = connect()
    latest().send({ id: 'a' })
    for (let beat = 0; beat < 10; beat++) {
      vi.advanceTimersByTime(5000)
      latest().send({ heartbeat: 'now' })
      expect(stream.snapshot().status).toBe('live')
    }
    const heard = Date.now() - 50
    const silent = latest()
    vi.advanceTimersByTime(12_000)
    expect(stream.snapshot()).toMatchObject({ status: 'lost', since: heard })
    expect(silent.closed).toBe(true)
    expect(ids()).toEqual(['a'])

    vi.advanceTimersByTime(1000)
    expect(latest()).not.toBe(silent)
    silent.send({ id: 'late' })
    expect(stream.snapshot().status).toBe('lost')
    latest().onopen()
    latest().send({ id: 'b' })
    expect(stream.snapshot().status).toBe('live')
    expect(ids()).toEqual(['b'])
  })

  it('gives up on a connection that does not open', () => {
    const stream = new Stream<{ id: string }>('/audit/live', { key: (item) => item.id })
    stream.subscribe(() => {})
    const began = Date.now()
    vi.advanceTimersByTime(12_000)
    expect(stream.snapshot()).toMatchObject({ status: 'lost', since: began })
    vi.advanceTimersByTime(1000)
    expect(FakeSocket.all).toHaveLength(2)
    vi.advanceTimersByTime(30_000)
    expect(FakeSocket.all.length).toBeGreaterThan(2)
    expect(stream.snapshot().since).toBe(began)
  })

  it('waits longer after each failure, but never longer than 20 seconds', () => {
    connect()
    const waits: number[] = []
    for (let round = 0; round < 9; round++) {
      const before = FakeSocket.all.length
      latest().onclose()
      let waited = 0
      for (; FakeSocket.all.length === before && waited < 60_000; waited += 100) vi.advanceTimersByTime(100)
      waits.push(waited)
    }
    expect(waits[0]).toBeLessThanOrEqual(700)
    expect(waits[5]).toBeGreaterThan(5000)
    expect(Math.max(...waits)).toBeLessThanOrEqual(20_000)
  })

  it('reports new items, but neither the first snapshot nor known items', () => {
    const { stream } = connect()
    const news: string[] = []
    stream.onNews((item) => news.push(item.id))
    latest().send({ id: 'a' })
    vi.advanceTimersByTime(2000)
    latest().send({ id: 'b' })
    latest().onclose()
    vi.advanceTimersByTime(1000)
    latest().onopen()
    latest().send({ id: 'a' }, { id: 'b' }, { id: 'c' })
    expect(news).toEqual(['b', 'c'])
  })

  it('is shared, and closes shortly after its last subscriber leaves', () => {
    const { stream, stop } = connect()
    const second = stream.subscribe(() => {})
    expect(FakeSocket.all).toHaveLength(1)
    stop()
    second()
    const third = stream.subscribe(() => {})
    vi.advanceTimersByTime(5000)
    expect(latest().closed).toBe(false)
    third()
    vi.advanceTimersByTime(5000)
    expect(latest().closed).toBe(true)
    expect(FakeSocket.all).toHaveLength(1)
  })
})
