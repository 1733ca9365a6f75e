import { lazy } from 'react'

/** The history of one row, which its form shows. Its code is loaded when somebody wants to see it. */
export const RowHistory = lazy(() => import('../areas/history/RowHistory'))
