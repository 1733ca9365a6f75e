import { useSyncExternalStore } from 'react'
import type { Stream, StreamState } from '../../api/stream'

export function useStream<T>(stream: Stream<T>): StreamState<T> {
  return useSyncExternalStore(stream.subscribe, stream.snapshot)
}
