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
  it('unpacks frames with several items, and says what was left out', () => {
    const stream = new Stream<{ id: string }>('/log/live', {
      key: (item) => item.id,
      unpack: ({ events, dropped }: { events: { id: string }[]; dropped: number }) => ({ items: events, dropped }),
    })
    stream.subscribe(() => {})
    latest().onopen()
    latest().send({ events: [{ id: 'a' }, { id: 'b' }], dropped: 0 }, { events: [], dropped: 7 })
    expect(stream.snapshot()).toMatchObject({ items: [{ id: 'a' }, { id: 'b' }], dropped: 7 })
  })

  it('keeps one item per key in the order of arrival, and no more than its limit', () => {
    const { stream, ids } = connect(3)
    latest().send({ id: 'a' }, { id: 'b' }, { id: 'a', n: 2 }, { id: 'c' })
    expect(ids()).toEqual(['a', 'b', 'c'])
    expect(stream.snapshot().items[0]).toEqual({ id: 'a', n: 2 })
    latest().send({ id: 'd' })
    expect(ids()).toEqual(['b', 'c', 'd'])
  })

  it('says since when the connection is lost, keeps what it has, and connects again by itself', () => {
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

  it('takes the snapshot of a new connection instead of what it had', () => {
    const { ids } = connect()
    latest().send({ id: 'a' }, { id: 'b' })
    latest().onclose()
    vi.advanceTimersByTime(1000)
    latest().onopen()
    latest().send({ id: 'b' }, { id: 'c' })
    expect(ids()).toEqual(['b', 'c'])
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

  it('calls out what is new, but not the first snapshot nor what it knew before', () => {
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

  it('is shared, and closes a moment after its last subscriber', () => {
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
