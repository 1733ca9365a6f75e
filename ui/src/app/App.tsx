import '@mantine/notifications/styles.layer.css'
import { Notifications } from '@mantine/notifications'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { lazy } from 'react'
import { onFault } from '../api/client'
import { toFault } from '../api/fault'
import { isLeaving } from '../api/session'
import { takeNext } from '../door/next'
import { RowHistoryContext } from '../kit/form/row-history'
import { createAppRouter } from './routes'

onFault((fault) => {
  if (fault.code === 'setup_required') location.replace('/setup')
  else if (fault.sessionLost && !isLeaving())
    location.replace(`/login?next=${encodeURIComponent(location.pathname + location.search)}`)
  else return fault.sessionLost
  return true
})

const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // The gateway may be reachable without internet access.
      networkMode: 'always',
      staleTime: 5000,
      // Errors are final, but an unreachable gateway may be restarting. A timeout has already waited long enough.
      retry: (count, error) => {
        const { code, status } = toFault(error)
        return count < 2 && [0, 502, 504].includes(status) && code !== 'timeout'
      },
    },
    mutations: { networkMode: 'always' },
  },
})

// Single sign-on always returns to the front page.
if (location.pathname === '/') history.replaceState(null, '', takeNext())

// Loaded when someone opens the history of a row.
const RowHistory = lazy(() => import('../areas/history/RowHistory'))

const router = createAppRouter(queryClient)

export default function App() {
  return (
    <QueryClientProvider client={queryClient}>
      <RowHistoryContext value={RowHistory}>
        <RouterProvider router={router} />
      </RowHistoryContext>
      <Notifications position="top-center" zIndex={500} />
    </QueryClientProvider>
  )
}
