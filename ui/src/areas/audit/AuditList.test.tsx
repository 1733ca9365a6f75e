import { MantineProvider } from '@mantine/core'
import { QueryClient, QueryClientProvider, useInfiniteQuery } from '@tanstack/react-query'
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from '@tanstack/react-router'
import { cleanup, render, screen } from '@testing-library/react'
import { afterEach, expect, it, vi } from 'vitest'
import type { AuditEntry } from '../../api/types'
import { nextPage } from '../../kit/list/next-page'
import { AuditList } from './AuditList'
import { isLogin } from './words'

afterEach(cleanup)

/** An observer that always reports the end of a list as visible. */
class Tall {
  constructor(private readonly seen: (entries: { isIntersecting: boolean }[]) => void) {}
  observe() {
    this.seen([{ isIntersecting: true }])
  }
  disconnect() {}
}

const entry = (id: number, action: string, subject: string, details?: object) =>
  ({
    id: String(id),
    action,
    subject,
    actor: 'admin@example.net',
    created_at: '2026-11-18T12:00:00Z',
    details,
  }) as never

/** A log: 500 domains created by one change, before that 200 logins, and before those a rule. */
const log: AuditEntry[] = [
  ...Array.from({ length: 500 }, (_, index) => entry(index, 'proxy.domain.create', 'www', { change_set: 'a' })),
  ...Array.from({ length: 200 }, (_, index) => entry(500 + index, 'auth.login.success', 'someone')),
  entry(700, 'firewall.rule.create', 'Guests to the internet'),
]

function Log({ from, of }: { from: number; of: (entry: AuditEntry) => boolean }) {
  const query = useInfiniteQuery({
    queryKey: ['log'],
    queryFn: async ({ pageParam }) => log.slice(pageParam, pageParam + 100),
    initialPageParam: from,
    getNextPageParam: (last, _, at) => (last.length === 100 ? at + 100 : undefined),
  })
  if (!query.data) return null
  return <AuditList entries={query.data.pages.flat().filter(of)} onEnd={nextPage(query)} />
}

function show(log: { from: number; of: (entry: AuditEntry) => boolean }) {
  vi.stubGlobal('IntersectionObserver', Tall)
  const router = createRouter({
    routeTree: createRootRoute({ component: () => <Log {...log} /> }),
    history: createMemoryHistory(),
  })
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  )
}

it('loads older entries, however many of them share a line', async () => {
  show({ from: 0, of: (entry) => !isLogin(entry) })
  await screen.findByText('Guests to the internet')
  expect(screen.getByText('500 domains created')).toBeTruthy()
})

it('keeps loading while no loaded entry is shown', async () => {
  show({ from: 500, of: (entry) => !isLogin(entry) })
  await screen.findByText('Guests to the internet')
  expect(screen.queryByText('No entries.')).toBeNull()
})

it('says if the whole log has nothing to show', async () => {
  show({ from: 500, of: () => false })
  await screen.findByText('No entries.')
})
