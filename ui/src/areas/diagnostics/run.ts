import type { PathStep } from '../../api/types'

/** A progress event of a run. */
export interface RunEvent {
  output?: string
  step?: PathStep
  over?: boolean
}

/**
 * Starts a run on the gateway and follows it. Aborting closes the connection, which stops the run there. If following
 * fails, the result still arrives at the end.
 */
export async function followed<T>(
  signal: AbortSignal,
  hear: (event: RunEvent) => void,
  begin: (run: string) => Promise<T>,
): Promise<T> {
  const run = crypto.randomUUID()
  const url = new URL('/api/v1/diagnostics/live', location.href)
  url.protocol = url.protocol.replace('http', 'ws')
  url.searchParams.set('run', run)
  const socket = new WebSocket(url)
  const hangUp = () => socket.close()
  signal.addEventListener('abort', hangUp)
  socket.onmessage = ({ data }) => hear(JSON.parse(String(data)) as RunEvent)
  try {
    await new Promise<void>((resolve) => {
      socket.onopen = () => resolve()
      socket.onerror = () => resolve()
    })
    signal.throwIfAborted()
    return await begin(run)
  } finally {
    signal.removeEventListener('abort', hangUp)
    hangUp()
  }
}
