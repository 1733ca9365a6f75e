import '@mantine/notifications/styles.layer.css'
import { Notifications } from '@mantine/notifications'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { onFault } from '../api/client'
import { toFault } from '../api/fault'
import { takeNext } from '../door/next'
import { createAppRouter } from './routes'
import { isLeaving } from './session'

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
      // The gateway may be reachable where the internet is not.
      networkMode: 'always',
      staleTime: 5000,
      // A refusal stays a refusal; a gateway that is away may be restarting. Silence has taken its time already.
      retry: (count, error) => {
        const { code, status } = toFault(error)
        return count < 2 && [0, 502, 504].includes(status) && code !== 'timeout'
      },
    },
    mutations: { networkMode: 'always' },
  },
})

// A single sign-on always comes back to the front page.
if (location.pathname === '/') history.replaceState(null, '', takeNext())

const router = createAppRouter(queryClient)

export default function App() {
  return (
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
      <Notifications position="top-center" zIndex={500} />
    </QueryClientProvider>
  )
}
