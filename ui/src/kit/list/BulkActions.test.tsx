import { MantineProvider } from '@mantine/core'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from '@tanstack/react-router'
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react'
import { afterEach, expect, it, vi } from 'vitest'
import { ConfirmHost } from '../change/confirm'
import { BulkActions } from './BulkActions'

afterEach(cleanup)

const rowsOf = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ id: String(index), name: `rule ${index}`, enabled: index > 0 }))

async function show(count: number) {
  const sent = vi.fn()
  const done = vi.fn()
  vi.stubGlobal('fetch', async (request: Request) => {
    const body = await request.json()
    sent(body)
    const data = { changes: [], files: [], impact: [] }
    return new Response(JSON.stringify({ data, error: null }), { headers: { 'Content-Type': 'application/json' } })
  })
  const component = () => (
    <>
      <BulkActions kind="firewall.rule" rows={rowsOf(count)} field="enabled" guard={async () => null} onDone={done} />
      <ConfirmHost />
    </>
  )
  const router = createRouter({ routeTree: createRootRoute({ component }), history: createMemoryHistory() })
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  )
  return { sent, done }
}

it('turns rows off with one change, after a question that names them', async () => {
  const { sent, done } = await show(8)
  fireEvent.click(await screen.findByRole('button', { name: 'Turn off' }))
  await screen.findByText('Turn off 7 firewall rules?')
  expect(screen.getByText('rule 1, rule 2, rule 3, rule 4, rule 5 and 2 more')).toBeTruthy()
  const operations = rowsOf(8)
    .slice(1)
    .map(({ id }) => ({ kind: 'firewall.rule', verb: 'update', id, body: { enabled: false } }))
  const button = screen.getAllByRole<HTMLButtonElement>('button', { name: 'Turn off', hidden: true }).at(-1)
  await waitFor(() => expect(button?.disabled).toBe(false))
  expect(sent.mock.calls.every(([{ preview }]) => preview)).toBe(true)
  fireEvent.click(button as HTMLElement)
  await waitFor(() => expect(done).toHaveBeenCalled())
  expect(sent).toHaveBeenLastCalledWith({ operations, preview: false, reason: '', confirm_within: 60 })
})

it('adds a deletion to the draft', async () => {
  const { sent, done } = await show(2)
  fireEvent.click(await screen.findByRole('button', { name: 'Delete' }))
  await screen.findByText('Delete 2 firewall rules?')
  const button = screen.getByRole<HTMLButtonElement>('button', { name: 'Add to draft', hidden: true })
  await waitFor(() => expect(button.disabled).toBe(false))
  fireEvent.click(button)
  await waitFor(() => expect(done).toHaveBeenCalled())
  const operations = ['0', '1'].map((id) => ({ kind: 'firewall.rule', verb: 'delete', id }))
  expect(sent).toHaveBeenLastCalledWith({ operations })
})

it('says if there are too many', async () => {
  await show(1001)
  await screen.findByText('Select at most 1,000 at once.')
  expect(screen.queryByRole('button')).toBeNull()
})
