import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import { meQuery } from '../api/session'
import { alertStream, auditStream, componentStream } from '../api/streams'
import { changeSetOf } from '../areas/audit/changes'
import { renew } from '../kit/change/renew'
import { useStream } from '../kit/state/useStream'

/**
 * Every mutation leaves an audit entry, so the audit stream says which lists are out of date, whoever
 * changed them: `ntp.pool.update` makes `ntp.pool` be read again, `user.totp.disable` makes `user`.
 */
export function useLiveCache() {
  const queries = useQueryClient()
  const { status } = useStream(auditStream)
  const wasLost = useRef(false)

  // What happened while the connection was away is unknown: everything on screen is read again.
  useEffect(() => {
    if (status === 'live' && wasLost.current) void queries.invalidateQueries()
    wasLost.current = status === 'lost'
  }, [status, queries])

  useEffect(
    () =>
      auditStream.onNews(({ action, details }) => {
        // What is part of a change set is in the history, too.
        if (changeSetOf({ details })) void renew(queries, 'change-set')
        const words = action.split('.')
        for (const end of words.keys()) {
          const kind = words.slice(0, end + 1).join('.')
          void renew(queries, kind)
        }
      }),
    [queries],
  )

  // A stream also closes when its session ends; the answer to this question then leads to the login.
  useEffect(() => auditStream.onLoss(() => void queries.invalidateQueries(meQuery)), [queries])

  useEffect(() => {
    const streams = [alertStream, auditStream, componentStream]
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
