import { Button } from '@mantine/core'
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { toFault } from '../../api/fault'
import { clockTime } from '../text/format'
import classes from './Loaded.module.css'
import { Notice } from './Notice'
import { Waiting } from './Waiting'

interface LoadedProps<T> {
  query: UseQueryResult<T>
  children: (data: T) => ReactNode
  /** The approximate height of the content, so that nothing jumps when it arrives. */
  height?: number
}

/** Shows the data of a query. If a refresh fails, old data stays on screen with its age. */
export function Loaded<T>({ query, children, height = 120 }: LoadedProps<T>) {
  const { t } = useTranslation()
  const retry = (
    <Button size="compact-sm" variant="default" onClick={() => query.refetch()} loading={query.isFetching}>
      {t('tryAgain')}
    </Button>
  )
  if (query.data === undefined) {
    if (!query.isError) return <Waiting height={height} />
    return <FaultNotice fault={query.error} action={retry} />
  }
  return (
    <>
      {query.isError && (
        <div className={classes.stale}>
          <Notice tone="warn" title={t('stale', { time: clockTime(query.dataUpdatedAt) })} action={retry}>
            {toFault(query.error).message}
          </Notice>
        </div>
      )}
      {children(query.data)}
    </>
  )
}

export function FaultNotice({ fault: cause, action }: { fault: unknown; action?: ReactNode }) {
  const { t } = useTranslation()
  const fault = toFault(cause)
  return (
    <Notice tone="bad" title={fault.message} action={action}>
      {Object.entries(fault.fields).map(([field, complaint]) => (
        <div key={field}>
          {field}: {complaint}
        </div>
      ))}
      {fault.requestId && (
        <span className="soft">
          {t('requestId')} <span className="mono">{fault.requestId}</span>
        </span>
      )}
    </Notice>
  )
}
