import { useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import { auditStream, componentStream } from '../api/streams'
import { useStream } from '../kit/useStream'
import { meQuery } from './session'

/**
 * Every mutation leaves an audit entry, so the audit stream says which lists are out of date, whoever
 * changed them: `ntp.pool.update` makes `ntp.pool` be read again.
 */
export function useLiveCache() {
  const queries = useQueryClient()
  useStream(auditStream)

  useEffect(
    () =>
      auditStream.onNews(({ action }) => {
        const kind = action.slice(0, action.lastIndexOf('.'))
        for (const key of [kind, action, 'audit']) void queries.invalidateQueries({ queryKey: [key] })
      }),
    [queries],
  )

  // A stream also closes when its session ends; the answer to this question then leads to the login.
  useEffect(() => auditStream.onLoss(() => void queries.invalidateQueries(meQuery)), [queries])

  useEffect(() => {
    const streams = [auditStream, componentStream]
    const hurry = () => {
      if (!document.hidden) for (const stream of streams) stream.hurry()
    }
    window.addEventListener('online', hurry)
    document.addEventListener('visibilitychange', hurry)
    return () => {
      window.removeEventListener('online', hurry)
      document.removeEventListener('visibilitychange', hurry)
    }
  }, [])
}
