import { MantineProvider } from '@mantine/core'
import { QueryClient } from '@tanstack/react-query'
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from '@tanstack/react-router'
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { ConfirmHost } from './confirm'
import { askToRemove } from './remove'

const remove = vi.fn(async () => ({ value: { id: '1' }, etag: null, applied: [] }))
const asked = vi.fn()

beforeEach(() => remove.mockClear())
afterEach(cleanup)

/** Opens the dialog with a gateway that answers the check like this. */
async function open(status: number, body: object) {
  vi.stubGlobal('fetch', async (request: Request) => {
    asked(await request.json())
    return new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } })
  })
  const router = createRouter({
    routeTree: createRootRoute({ component: ConfirmHost }),
    history: createMemoryHistory(),
  })
  render(
    <MantineProvider env="test">
      <RouterProvider router={router as never} />
    </MantineProvider>,
  )
  const resource = { kind: 'proxy.backend', remove }
  const answer = askToRemove({ resource, id: '1', name: 'shop', text: 'It goes.', queries: new QueryClient() })
  const button = await screen.findByRole<HTMLButtonElement>('button', { name: 'Delete', hidden: true })
  return { answer, button }
}

it('shows what depends on a thing when the question opens, and does not offer to delete it', async () => {
  const used_by = Array.from({ length: 2001 }, (_, index) => ({
    kind: 'proxy.domain',
    id: String(index),
    name: `www${index}.example.com`,
  }))
  const error = { code: 'conflict', message: 'The backend shop is still in use.', details: { used_by } }
  const { button } = await open(409, { data: null, error })
  await screen.findByText('The backend shop is still in use.')
  expect(screen.getAllByText(/^www\d+\.example\.com$/)).toHaveLength(5)
  expect(screen.getByText('and 1,996 more')).toBeTruthy()
  expect(button.disabled).toBe(true)
  expect(asked).toHaveBeenLastCalledWith({
    operations: [{ kind: 'proxy.backend', verb: 'delete', id: '1' }],
    preview: true,
    reason: '',
  })
  expect(remove).not.toHaveBeenCalled()
})

it('deletes what nothing depends on', async () => {
  const { button, answer } = await open(200, { data: { changes: [], files: [] }, error: null })
  await waitFor(() => expect(button.disabled).toBe(false))
  fireEvent.click(button)
  expect(await answer).toBe(true)
  expect(remove).toHaveBeenCalledWith('1', undefined, { reason: '', within: 0 })
})

it('offers to add the deletion to the draft, which may remove the obstacle', async () => {
  const error = { code: 'conflict', message: 'The backend shop is still in use.', details: { used_by: [] } }
  const { answer } = await open(409, { data: null, error })
  await screen.findByText('The backend shop is still in use.')
  vi.stubGlobal('fetch', async (request: Request) => {
    asked(await request.json())
    const data = { version: 'v', updated_at: null, operations: [] }
    return new Response(JSON.stringify({ data, error: null }), { headers: { 'Content-Type': 'application/json' } })
  })
  fireEvent.click(screen.getByRole('button', { name: 'Add to draft', hidden: true }))
  expect(await answer).toBe(true)
  expect(asked).toHaveBeenLastCalledWith({ operations: [{ kind: 'proxy.backend', verb: 'delete', id: '1' }] })
  expect(remove).not.toHaveBeenCalled()
})
