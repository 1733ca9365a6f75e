import { useSyncExternalStore } from 'react'
import { useTranslation } from 'react-i18next'
import { exactTime, relative } from './format'

// All relative times on a page share a clock, so they change together, every ten seconds.
const step = 10_000
const tick = () => Math.floor(Date.now() / step) * step
function subscribe(listener: () => void) {
  const timer = setInterval(listener, step)
  return () => clearInterval(timer)
}

/** A relative time, with the exact time on hover. */
export function Time({ at }: { at: string | number | null | undefined }) {
  const { t } = useTranslation()
  const now = useSyncExternalStore(subscribe, tick)
  if (!at) return <span className="soft">{t('never')}</span>
  const moment = new Date(at)
  return (
    <time dateTime={moment.toISOString()} title={exactTime(moment.getTime())}>
      {relative(moment.getTime(), now, t('justNow'))}
    </time>
  )
}
