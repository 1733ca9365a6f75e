import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import { meQuery } from '../api/session'
import { alertStream, auditStream, componentStream } from '../api/streams'
import { changeSetOf } from '../areas/audit/changes'
import { renew } from '../kit/change/renew'
import { useStream } from '../kit/state/useStream'

/**
 * Every mutation leaves an audit entry, so the audit stream tells which lists are outdated, no matter who changed them:
 * `ntp.pool.update` reloads `ntp.pool`, `user.totp.disable` reloads `user`.
 */
export function useLiveCache() {
  const queries = useQueryClient()
  const { status } = useStream(auditStream)
  const wasLost = useRef(false)

  // Events during a lost connection are unknown, so reload everything on screen.
  useEffect(() => {
    if (status === 'live' && wasLost.current) void queries.invalidateQueries()
    wasLost.current = status === 'lost'
  }, [status, queries])

  useEffect(
    () =>
      auditStream.onNews(({ action, details }) => {
        // A change set also appears in the history.
        if (changeSetOf({ details })) void renew(queries, 'change-set')
        const words = action.split('.')
        for (const end of words.keys()) {
          const kind = words.slice(0, end + 1).join('.')
          void renew(queries, kind)
        }
      }),
    [queries],
  )

  // The stream also closes when its session ends; then this request redirects to the login page.
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
