import './texts'
import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import { healthQuery } from '../../api/state'
import { LastJob } from '../../kit/job/LastJob'
import { mustReload, usual } from './progress'
import { upgradeQuery } from './resources'

/** The running upgrade, or the result of the last one. */
export function LastUpgrade() {
  const query = useQuery(upgradeQuery)
  useNewVersion(query.data?.state === 'running')
  return <LastJob text="updates" name="upgrade" usual={usual} query={query} />
}

/** Reloads the page once if the gateway's version has changed since the page was loaded. */
function useNewVersion(running: boolean) {
  const health = useQuery({ ...healthQuery, refetchInterval: running ? 2000 : 15_000 })
  const serving = health.data?.version
  const loaded = useRef(serving)
  useEffect(() => {
    loaded.current ??= serving
    if (mustReload(loaded.current, serving, sessionStorage)) location.reload()
  }, [serving])
}
