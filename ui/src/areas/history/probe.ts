import { useEffect, useState } from 'react'

/** The result of the last attempt to reach the gateway over a new connection. */
export interface Probed {
  state: 'trying' | 'answers' | 'silent'
  /** Proves to the gateway that it was reached. */
  proof: string
}

const every = 3000
/** A slower connection counts as failed. */
const patience = 5000

/**
 * Opens a new connection and returns the proof received over it, or null. Browsers never share a connection with a
 * WebSocket.
 */
function probe(id: string): Promise<string | null> {
  const url = new URL('/api/v1/change-sets/probe', location.href)
  url.protocol = url.protocol.replace('http', 'ws')
  url.searchParams.set('id', id)
  const socket = new WebSocket(url)
  return new Promise((resolve) => {
    const done = (proof: string | null) => {
      clearTimeout(timer)
      resolve(proof)
      socket.onclose = null
      socket.close()
    }
    const timer = setTimeout(() => done(null), patience)
    socket.onmessage = (event) => done((JSON.parse(String(event.data)) as { proof: string }).proof)
    socket.onclose = () => done(null)
  })
}

/** Keeps trying while wanted. */
export function useProbe(id: string, wanted: boolean): Probed {
  const [probed, setProbed] = useState<Probed>({ state: 'trying', proof: '' })
  useEffect(() => {
    if (!wanted) return
    let on = true
    let timer: ReturnType<typeof setTimeout>
    const next = async () => {
      const proof = await probe(id)
      if (!on) return
      setProbed((old) => (proof ? { state: 'answers', proof } : { state: 'silent', proof: old.proof }))
      timer = setTimeout(next, every)
    }
    void next()
    return () => {
      on = false
      clearTimeout(timer)
    }
  }, [id, wanted])
  return probed
}
