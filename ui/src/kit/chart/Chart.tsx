import { Skeleton } from '@mantine/core'
import { lazy, Suspense } from 'react'
import type { PlotProps } from './Plot'

const Plot = lazy(() => import('./Plot'))

/** A small live chart. The drawing code is loaded when the first chart is shown. */
export function Chart(props: PlotProps) {
  return (
    <div style={{ height: props.height }}>
      <Suspense fallback={<Skeleton height={props.height} />}>
        <Plot {...props} />
      </Suspense>
    </div>
  )
}
