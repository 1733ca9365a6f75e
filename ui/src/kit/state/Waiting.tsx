import { Skeleton } from '@mantine/core'
import { useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { clockTime } from '../text/format'
import classes from './Loaded.module.css'

/** Milliseconds after which a page says what it is waiting for. */
const patience = 3000

/** A placeholder for content that has not arrived. */
export function Waiting({ height }: { height: number }) {
  const { t } = useTranslation()
  const [since] = useState(Date.now)
  const [long, setLong] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), patience)
    return () => clearTimeout(timer)
  }, [])
  return (
    <div>
      <Skeleton height={height} aria-label={t('loading')} />
      <p role="status" className={classes.waiting}>
        {long && t('waiting', { time: clockTime(since) })}
      </p>
    </div>
  )
}
