export type StreamStatus = 'connecting' | 'live' | 'lost'

export interface StreamState<T> {
  /** The items received so far, oldest first, one per key. */
  items: readonly T[]
  status: StreamStatus
  /** How many items the gateway dropped because this client was too slow. */
  dropped: number
  /** When the status last changed. */
  since: number
}

interface Options<T> {
  key: (item: T) => string
  /** How many items to keep; the oldest are dropped first. */
  limit?: number
  /** For frames with several items: extracts them. */
  unpack?: (frame: never) => { items: T[]; dropped: number }
}

type Timer = ReturnType<typeof setTimeout>

/** Interval of the gateway's heartbeat in seconds. */
const heartbeat = 5
/** A connection that is silent for longer counts as lost, whatever the browser reports. */
const silence = 12_000

/**
 * One WebSocket shared by several views. It opens with its first subscriber and closes after the last, reconnects after
 * a loss, and tells since when it has heard nothing. The server sends a snapshot after every connect, so the first
 * frame of a connection replaces all items.
 */
export class Stream<T> {
  private state: StreamState<T> = { items: [], status: 'connecting', dropped: 0, since: Date.now() }
  private readonly subscribers = new Set<() => void>()
  private readonly newsListeners = new Set<(item: T) => void>()
  private readonly lossListeners = new Set<() => void>()
  private socket: WebSocket | null = null
  private attempts = 0
  private buffer: T[] = []
  private dropped = 0
  private replace = true
  private openedAt = 0
  private retryTimer: Timer | undefined
  private flushTimer: Timer | undefined
  private closeTimer: Timer | undefined
  private watchdog: Timer | undefined

  constructor(
    private readonly path: string,
    private readonly options: Options<T>,
  ) {}

  readonly snapshot = (): StreamState<T> => this.state

  readonly subscribe = (listener: () => void): (() => void) => {
    this.subscribers.add(listener)
    clearTimeout(this.closeTimer)
    if (this.subscribers.size === 1 && !this.socket) this.open()
    return () => {
      this.subscribers.delete(listener)
      // A change of page unsubscribes and immediately subscribes again, so keep the connection a little longer.
      if (this.subscribers.size === 0) this.closeTimer = setTimeout(this.close, 1000)
    }
  }

  /** Calls back for items that happen while watching, not for those in the first snapshot. */
  onNews(listener: (item: T) => void): () => void {
    this.newsListeners.add(listener)
    return () => this.newsListeners.delete(listener)
  }

  /** Calls back when a connection fails. The browser does not say why, so the listener asks the API. */
  onLoss(listener: () => void): () => void {
    this.lossListeners.add(listener)
    return () => this.lossListeners.delete(listener)
  }

  /** Reconnects now instead of after the back-off: the network is back, or the page is visible again. */
  readonly hurry = () => {
    if (this.state.status !== 'lost' || this.subscribers.size === 0) return
    clearTimeout(this.retryTimer)
    this.open()
  }

  private open() {
    const url = new URL(`/api/v1${this.path}`, location.href)
    url.protocol = url.protocol.replace('http', 'ws')
    url.searchParams.set('heartbeat', String(heartbeat))
    const socket = new WebSocket(url)
    this.socket = socket
    this.replace = true
    this.buffer = []
    this.dropped = 0
    this.watch(socket, this.state.since)
    socket.onopen = () => {
      if (this.socket !== socket) return
      this.watch(socket)
      this.openedAt ||= Date.now()
      this.attempts = 0
      this.become('live')
    }
    socket.onmessage = (event) => {
      if (this.socket !== socket) return
      this.watch(socket)
      const frame = JSON.parse(String(event.data))
      if ('heartbeat' in frame) return
      const { items, dropped } = this.options.unpack?.(frame as never) ?? { items: [frame as T], dropped: 0 }
      this.buffer.push(...items)
      this.dropped = dropped
      // A snapshot arrives as many frames; show them together.
      this.flushTimer ??= setTimeout(this.flush, 40)
    }
    socket.onclose = () => this.lose(socket)
  }

  /** Starts the watchdog: the connection is lost unless it says something in time. `heard` is when it last did. */
  private watch(socket: WebSocket, heard = Date.now()) {
    clearTimeout(this.watchdog)
    this.watchdog = setTimeout(() => {
      this.lose(socket, heard)
      socket.close()
    }, silence)
  }

  private lose(socket: WebSocket, since = Date.now()) {
    if (this.socket !== socket) return
    clearTimeout(this.watchdog)
    this.socket = null
    this.become('lost', since)
    for (const listener of this.lossListeners) listener()
    const wait = Math.min(15_000, 500 * 2 ** this.attempts++)
    this.retryTimer = setTimeout(() => this.open(), wait * (0.75 + Math.random() / 2))
  }

  private readonly close = () => {
    clearTimeout(this.retryTimer)
    clearTimeout(this.watchdog)
    const socket = this.socket
    this.socket = null
    socket?.close()
    this.openedAt = 0
    this.state = { items: [], status: 'connecting', dropped: 0, since: Date.now() }
  }

  private readonly flush = () => {
    this.flushTimer = undefined
    if (this.buffer.length === 0 && this.dropped === this.state.dropped) return
    const { key, limit = 1000 } = this.options
    const known = new Set(this.state.items.map(key))
    const kept = new Map(this.replace ? [] : this.state.items.map((item) => [key(item), item]))
    for (const item of this.buffer) kept.set(key(item), item)
    const news = Date.now() - this.openedAt > 1000 ? this.buffer.filter((item) => !known.has(key(item))) : []
    this.replace = false
    this.buffer = []
    this.state = { ...this.state, items: [...kept.values()].slice(-limit), dropped: this.dropped }
    this.notify()
    for (const item of news) for (const listener of this.newsListeners) listener(item)
  }

  private become(status: StreamStatus, since = Date.now()) {
    if (this.state.status === status) return
    this.state = { ...this.state, status, since }
    this.notify()
  }

  private notify() {
    for (const subscriber of this.subscribers) subscriber()
  }
}
