import { Skeleton } from '@mantine/core'
import { lazy, Suspense } from 'react'
import type { PlotProps } from './Plot'

const Plot = lazy(() => import('./Plot'))

/** A small live chart. Its code is loaded with the first chart. */
export function Chart(props: PlotProps) {
  return (
    <div style={{ height: props.height }}>
      <Suspense fallback={<Skeleton height={props.height} />}>
        <Plot {...props} />
      </Suspense>
    </div>
  )
}
