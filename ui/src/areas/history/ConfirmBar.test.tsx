import { MantineProvider } from '@mantine/core'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from '@tanstack/react-router'
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { meQuery } from '../../api/session'
import ConfirmBar from './ConfirmBar'

/** What the fake gateway answers, and the requests that it got. */
let waiting: object[]
let state: string
let asked: { url: string; body: string }[]
let sockets: FakeSocket[]

class FakeSocket {
  onmessage: ((event: { data: string }) => void) | null = null
  onclose: (() => void) | null = null
  constructor(readonly url: URL) {
    sockets.push(this)
  }
  close() {}
}

const set = { id: 'set-1', actor: 'ann@example.net', components: ['packet-filter'], applied_at: '2026-03-01T12:00:00Z' }
const whole = (id: string) => ({
  id,
  actor: 'ann@example.net',
  kinds: [{ kind: 'firewall.rule', created: 0, updated: 2, deleted: 0 }],
  components: [],
  state: id === 'set-1' ? state : 'none',
  reverted_by: id === 'set-1' && state === 'taken_back' ? 'set-2' : null,
  reason: id === 'set-2' ? 'It was not confirmed in time.' : '',
})

beforeEach(() => {
  waiting = [{ ...set, confirm_by: new Date(Date.now() + 40_000).toISOString() }]
  state = 'waiting'
  asked = []
  sockets = []
  vi.stubGlobal('WebSocket', FakeSocket)
  vi.stubGlobal('fetch', async (request: Request) => {
    const { pathname } = new URL(request.url)
    if (request.method === 'POST') asked.push({ url: pathname, body: await request.text() })
    const id = pathname.split('/').at(-1) ?? ''
    const data = id === 'waiting' ? waiting : whole(id)
    return new Response(JSON.stringify({ data, error: null }), { headers: { 'Content-Type': 'application/json' } })
  })
})
afterEach(cleanup)

function show(email: string, role = 'admin') {
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } })
  queries.setQueryData(meQuery.queryKey, { email, role } as never)
  const router = createRouter({
    routeTree: createRootRoute({ component: ConfirmBar }),
    history: createMemoryHistory(),
  })
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queries}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  )
  return queries
}

const button = (name: string) => screen.getByRole<HTMLButtonElement>('button', { name })

it('keeps a change once the gateway was reached over a new connection', async () => {
  show('ann@example.net')
  expect(await screen.findByText('Confirm your change: 2 firewall rules changed.')).toBeDefined()
  expect(screen.getByRole('timer').textContent).toMatch(/in \d+ s/)
  expect(button('Keep').disabled).toBe(true)
  await waitFor(() => expect(sockets.length).toBeGreaterThan(0))
  expect(String(sockets[0]?.url)).toMatch(/^ws.*\/api\/v1\/change-sets\/probe\?id=set-1$/)
  sockets[0]?.onmessage?.({ data: '{"proof":"seen"}' })
  expect(await screen.findByText('The gateway answers over a new connection.')).toBeDefined()
  fireEvent.click(button('Keep'))
  await waitFor(() => expect(asked).toEqual([{ url: '/api/v1/change-sets/set-1/confirm', body: '{"proof":"seen"}' }]))
})

it('says that the gateway is unreachable, and does not offer to keep the change', async () => {
  show('ann@example.net')
  await waitFor(() => expect(sockets.length).toBeGreaterThan(0))
  sockets[0]?.onclose?.()
  expect(await screen.findByText('The gateway does not answer over a new connection.')).toBeDefined()
  expect(button('Keep').disabled).toBe(true)
  fireEvent.click(button('Undo now'))
  await waitFor(() => expect(asked.map(({ url }) => url)).toEqual(['/api/v1/change-sets/set-1/discard']))
})

it('tells others who must confirm, and shows a viewer no buttons', async () => {
  show('bob@example.net', 'viewer')
  expect(await screen.findByText('ann@example.net must confirm a change: 2 firewall rules changed.')).toBeDefined()
  expect(screen.queryByRole('button')).toBeNull()
})

it('says when and why a change was reverted, until that is dismissed', async () => {
  const queries = show('ann@example.net')
  await screen.findByText('Confirm your change: 2 firewall rules changed.')
  waiting = []
  state = 'taken_back'
  await queries.invalidateQueries()
  const text = 'Reverted: 2 firewall rules changed. It was not confirmed in time.'
  expect(await screen.findByText(text)).toBeDefined()
  fireEvent.click(button('Dismiss'))
  await waitFor(() => expect(screen.queryByText(text)).toBeNull())
})
