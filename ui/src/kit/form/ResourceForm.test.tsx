import { MantineProvider } from '@mantine/core'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import {
  createMemoryHistory,
  createRootRoute,
  createRoute,
  createRouter,
  Outlet,
  RouterProvider,
} from '@tanstack/react-router'
import { act, cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react'
import type { ReactNode } from 'react'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Fault } from '../../api/fault'
import type { Resource } from '../../api/resource'
import { meQuery } from '../../api/session'
import type { DraftOperation } from '../../api/types'
import { addTexts } from '../../i18n/i18n'
import { draftQuery } from '../change/draft'
import type { Guard } from '../change/remove'
import { CreateForm, EditForm } from './ResourceForm'

interface Thing {
  id: string
  address: string
}

const field = { label: 'Address' }
addTexts('test', { thing: { address: field, deleteText: 'It goes.' } })
addTexts('test', { net: { network: { label: 'Network' }, gateway: { label: 'Gateway' } } })

/** No reason, and no confirmation. */
const unsaid = { reason: '', within: 0 }
const stored = { value: { id: '1', address: 'a.example.com' }, etag: '"1"', applied: [] }
let things: Resource<Thing>
let queries: QueryClient

beforeEach(() => {
  things = {
    kind: 'thing',
    list: vi.fn(),
    read: vi.fn(async () => stored),
    create: vi.fn(),
    update: vi.fn(async (id, body) => ({ value: { id, ...body } as Thing, etag: '"2"', applied: [] })),
    remove: vi.fn(),
    past: { entries: vi.fn(async () => []), at: vi.fn() },
  }
  queries = new QueryClient({ defaultOptions: { queries: { retry: false } } })
})
afterEach(cleanup)

function show(form: ReactNode, role: 'admin' | 'viewer' = 'admin', operations: Partial<DraftOperation>[] = []) {
  queries.setQueryData(meQuery.queryKey, { role } as never)
  queries.setQueryData(draftQuery.queryKey, { operations } as never)
  const root = createRootRoute({ component: Outlet })
  const page = createRoute({ getParentRoute: () => root, path: '/', component: () => form })
  const router = createRouter({ routeTree: root.addChildren([page]), history: createMemoryHistory() })
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queries}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  )
}

async function open(
  role: 'admin' | 'viewer' = 'admin',
  onDone = vi.fn(),
  guard?: Guard,
  drafted: Partial<DraftOperation>[] = [],
) {
  show(
    <EditForm
      resource={things}
      id="1"
      text="test:thing"
      fields={[{ name: 'address', type: 'mono', required: true }]}
      name={(thing) => thing.address}
      onDone={onDone}
      guard={guard}
    />,
    role,
    drafted,
  )
  return { input: (await screen.findByLabelText(/Address/)) as HTMLInputElement, onDone }
}

const type = (input: HTMLInputElement, value: string) => fireEvent.change(input, { target: { value } })
const save = () => screen.getByRole<HTMLButtonElement>('button', { name: 'Save' })

describe('a form', () => {
  it('saves with the version it was opened with, by Ctrl+Enter', async () => {
    const { input, onDone } = await open()
    expect(save().disabled).toBe(true)
    type(input, 'b.example.com')
    fireEvent.keyDown(input, { key: 'Enter', ctrlKey: true })
    await waitFor(() => expect(onDone).toHaveBeenCalled())
    expect(things.update).toHaveBeenCalledWith('1', { address: 'b.example.com' }, '"1"', ['address'], unsaid)
  })

  it('sends the reason, and requires a confirmation for what can cut people off', async () => {
    things = { ...things, kind: 'firewall.rule' }
    const { input, onDone } = await open()
    expect(screen.getByText('Reverts unless you confirm within 60 s')).toBeDefined()
    fireEvent.click(screen.getByRole('button', { name: /^Reason and confirmation/ }))
    fireEvent.change(screen.getByLabelText('Reason'), { target: { value: 'Ticket 7' } })
    fireEvent.change(screen.getByLabelText('Seconds to confirm'), { target: { value: '30' } })
    type(input, 'b.example.com')
    fireEvent.click(save())
    await waitFor(() => expect(onDone).toHaveBeenCalled())
    const said = { reason: 'Ticket 7', within: 30 }
    expect(things.update).toHaveBeenCalledWith('1', { address: 'b.example.com' }, '"1"', ['address'], said)
  })

  it('shows the error of the server at its field and keeps what was typed', async () => {
    const { input, onDone } = await open()
    vi.mocked(things.update).mockRejectedValueOnce(
      new Fault({ code: 'validation_failed', message: 'No.', status: 400, fields: { address: 'Not a host.' } }),
    )
    type(input, 'b c')
    fireEvent.click(save())
    expect(await screen.findByText('Not a host.')).toBeTruthy()
    expect(input.value).toBe('b c')
    expect(onDone).not.toHaveBeenCalled()
  })

  it('saves despite an objection only after a confirmation', async () => {
    const guard = vi.fn(async () => 'That would hurt.')
    const { input, onDone } = await open('admin', vi.fn(), guard)
    type(input, 'b.example.com')
    fireEvent.click(save())
    expect(await screen.findByText('That would hurt.')).toBeTruthy()
    expect(guard).toHaveBeenCalledWith([{ kind: 'thing', verb: 'update', id: '1', body: { address: 'b.example.com' } }])
    expect(things.update).not.toHaveBeenCalled()
    type(input, 'c.example.com')
    await waitFor(() => expect(screen.queryByText('That would hurt.')).toBeNull())
    fireEvent.click(save())
    fireEvent.click(await screen.findByRole('button', { name: 'Save anyway' }))
    await waitFor(() => expect(onDone).toHaveBeenCalled())
    expect(things.update).toHaveBeenCalledTimes(1)
  })

  it('does not wait for an objection that fails', async () => {
    const { input, onDone } = await open('admin', vi.fn(), () => Promise.reject(new Error('away')))
    type(input, 'b.example.com')
    fireEvent.click(save())
    await waitFor(() => expect(onDone).toHaveBeenCalled())
  })

  it('does not send a form with a missing required field', async () => {
    const { input } = await open()
    type(input, '')
    fireEvent.click(save())
    expect(await screen.findByText('This field is required.')).toBeTruthy()
    expect(things.update).not.toHaveBeenCalled()
  })

  it('says that someone else changed it, keeps the entries, and takes theirs only when asked', async () => {
    const { input } = await open()
    vi.mocked(things.update).mockRejectedValueOnce(new Fault({ code: 'stale', message: 'Changed.', status: 412 }))
    vi.mocked(things.read).mockResolvedValue({
      ...stored,
      value: { id: '1', address: 'theirs.example.com' },
      etag: '"9"',
    })
    type(input, 'mine.example.com')
    fireEvent.click(save())
    const take = await screen.findByRole('button', { name: 'Load the new version' })
    expect(input.value).toBe('mine.example.com')
    fireEvent.click(take)
    await waitFor(() => expect(screen.getByLabelText<HTMLInputElement>(/Address/).value).toBe('theirs.example.com'))
    type(screen.getByLabelText(/Address/), 'mine.example.com')
    fireEvent.click(save())
    await waitFor(() =>
      expect(things.update).toHaveBeenLastCalledWith('1', { address: 'mine.example.com' }, '"9"', ['address'], unsaid),
    )
  })

  it('follows the changes of someone else while untouched', async () => {
    const { input } = await open()
    expect(input.value).toBe('a.example.com')
    vi.mocked(things.read).mockResolvedValue({
      ...stored,
      value: { id: '1', address: 'theirs.example.com' },
      etag: '"9"',
    })
    await queries.invalidateQueries({ queryKey: [things.kind] })
    await waitFor(() => expect(screen.getByLabelText<HTMLInputElement>(/Address/).value).toBe('theirs.example.com'))
    expect(screen.queryByRole('button', { name: 'Load the new version' })).toBeNull()
  })

  it('shows plain text to a viewer', async () => {
    show(
      <EditForm
        resource={things}
        id="1"
        text="test:thing"
        fields={[{ name: 'address', type: 'mono', required: true }]}
        name={(thing) => thing.address}
      />,
      'viewer',
    )
    expect(await screen.findByText('a.example.com')).toBeTruthy()
    expect(screen.queryByRole('textbox')).toBeNull()
    expect(screen.queryByRole('button', { name: 'Save' })).toBeNull()
  })
})

describe('the draft', () => {
  const asked = vi.fn()
  const gateway = (status: number, body: object) =>
    vi.stubGlobal('fetch', async (request: Request) => {
      asked(request.url.replace(/.*\/api\/v1/, ''), await request.json())
      return new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } })
    })
  const toDraft = () => screen.getByRole<HTMLButtonElement>('button', { name: 'Add to draft' })
  const body = { operations: [{ kind: 'thing', verb: 'update', id: '1', body: { address: 'b.example.com' } }] }
  afterEach(() => {
    asked.mockClear()
    vi.unstubAllGlobals()
  })

  it("takes the form's values, and nothing is saved", async () => {
    const draft = { version: 'v', updated_at: null, operations: [] }
    gateway(200, { data: draft, error: null })
    const { input, onDone } = await open()
    expect(toDraft().disabled).toBe(true)
    type(input, 'b.example.com')
    fireEvent.click(toDraft())
    await waitFor(() => expect(onDone).toHaveBeenCalled())
    expect(asked).toHaveBeenCalledWith('/draft/operations', body)
    expect(things.update).not.toHaveBeenCalled()
    expect(queries.getQueryData(draftQuery.queryKey)).toEqual(draft)
  })

  it('shows errors at the fields, and asks if there is an objection', async () => {
    const fields = { 'operations.0.body.address': 'Not a host.' }
    gateway(400, { data: null, error: { code: 'validation_failed', message: 'No.', fields } })
    const { input, onDone } = await open('admin', vi.fn(), async () => 'That would hurt.')
    type(input, 'b.example.com')
    fireEvent.click(toDraft())
    expect(await screen.findByText('That would hurt.')).toBeTruthy()
    expect(asked).not.toHaveBeenCalled()
    fireEvent.click(screen.getByRole('button', { name: 'Add anyway' }))
    expect(await screen.findByText('Not a host.')).toBeTruthy()
    expect(onDone).not.toHaveBeenCalled()
  })

  it('is shown in the form of a row that it changes', async () => {
    const after = { id: '1', address: 'drafted.example.com' }
    const fields = { address: ['a.example.com', after.address] as [unknown, unknown] }
    const { input } = await open('admin', vi.fn(), undefined, [
      { kind: 'thing', verb: 'update', id: '1', after, fields },
    ])
    expect(input.value).toBe('drafted.example.com')
    expect(screen.getByText(/Your draft changes this/)).toBeTruthy()
  })

  it('has rows that are not stored yet, which are changed only in the draft', async () => {
    gateway(200, { data: { version: 'v', updated_at: null, operations: [] }, error: null })
    const after = { id: '1', address: 'new.example.com' }
    const { input } = await open('admin', vi.fn(), undefined, [{ kind: 'thing', verb: 'create', id: '1', after }])
    expect(input.value).toBe('new.example.com')
    expect(screen.queryByRole('button', { name: 'Save' })).toBeNull()
    expect(things.read).not.toHaveBeenCalled()
    type(input, 'b.example.com')
    fireEvent.click(toDraft())
    await waitFor(() => expect(asked).toHaveBeenCalledWith('/draft/operations', body))
  })
})

describe('two users who edit the same row', () => {
  const fields = ['network', 'gateway', 'remark'].map((name) => ({ name, type: 'text' as const }))
  const begun = { network: '10.1', gateway: '10.1.1', remark: '' }
  const changed = { actor: 'ann@example.net', created_at: '2026-01-01T12:00:00Z' }

  it('are told of each other, and lose only what both have changed', async () => {
    addTexts('test', { net: { remark: { label: 'Remark' } } })
    vi.mocked(things.read).mockResolvedValue({ ...stored, value: begun as never })
    vi.mocked(things.past.entries).mockResolvedValue([changed as never])
    show(<EditForm resource={things} id="1" text="test:net" fields={fields} name={() => 'it'} />)
    type(await screen.findByLabelText(/Network/), '10.2')
    type(screen.getByLabelText(/Remark/), 'mine')
    const theirs = { ...begun, network: '10.9', gateway: '10.9.1' }
    vi.mocked(things.read).mockResolvedValue({ ...stored, value: theirs as never, etag: '"9"' })
    vi.mocked(things.update).mockRejectedValueOnce(new Fault({ code: 'stale', message: 'Changed.', status: 412 }))
    fireEvent.click(save())
    expect(await screen.findByText(/ann@example.net changed: Network, Gateway\./)).toBeTruthy()
    expect(screen.getByText(/Your changes to these fields will be replaced: Network\./)).toBeTruthy()
    fireEvent.click(screen.getByRole('button', { name: 'Load the new version' }))
    await waitFor(() => expect(screen.getByLabelText<HTMLInputElement>(/Network/).value).toBe('10.9'))
    expect(screen.getByLabelText<HTMLInputElement>(/Gateway/).value).toBe('10.9.1')
    expect(screen.getByLabelText<HTMLInputElement>(/Remark/).value).toBe('mine')
    fireEvent.click(save())
    await waitFor(() =>
      expect(things.update).toHaveBeenLastCalledWith('1', { ...theirs, remark: 'mine' }, '"9"', ['remark'], unsaid),
    )
  })
})

describe('a field that depends on another', () => {
  const fields = ['network', 'gateway'].map((name) => ({ name, type: 'mono' as const }))
  const follow = ({ network }: Record<string, unknown>) => ({ gateway: network ? `${network}.1` : '' })
  const field = (label: RegExp) => screen.findByLabelText<HTMLInputElement>(label)

  it('follows it until the user edits the field', async () => {
    const defaults = { network: '', gateway: '' }
    show(<CreateForm resource={things} text="test:net" fields={fields} defaults={defaults} follow={follow} />)
    const [network, gateway] = [await field(/Network/), await field(/Gateway/)]
    type(network, '10.1')
    await waitFor(() => expect(gateway.value).toBe('10.1.1'))
    type(network, '10.2')
    await waitFor(() => expect(gateway.value).toBe('10.2.1'))
    type(gateway, '10.2.254')
    type(network, '10.3')
    await waitFor(() => expect(network.value).toBe('10.3'))
    expect(gateway.value).toBe('10.2.254')
  })

  it('keeps the stored value, whatever it would follow to', async () => {
    vi.mocked(things.read).mockResolvedValue({ ...stored, value: { network: '10.1', gateway: '10.1.254' } as never })
    show(<EditForm resource={things} id="1" text="test:net" fields={fields} name={() => 'it'} follow={follow} />)
    const [network, gateway] = [await field(/Network/), await field(/Gateway/)]
    expect(gateway.value).toBe('10.1.254')
    type(network, '10.2')
    await waitFor(() => expect(network.value).toBe('10.2'))
    expect(gateway.value).toBe('10.1.254')
  })
})

it('is not saved while a field shows something that is not one of its choices', async () => {
  addTexts('test', { rule: { zone: { label: 'Zone' } } })
  show(
    <CreateForm
      resource={things}
      text="test:rule"
      fields={[{ name: 'zone', type: 'select', choices: ['any', 'lan'], required: true }]}
      defaults={{ zone: 'any' }}
    />,
  )
  const input = (await screen.findByRole('combobox', { name: /Zone/ })) as HTMLInputElement
  act(() => input.focus())
  fireEvent.input(input, { target: { value: 'guests' } })
  fireEvent.keyDown(input, { key: 'Enter', ctrlKey: true })
  expect(await screen.findByText(/“guests” is not one of the choices/)).toBeTruthy()
  act(() => input.blur())
  fireEvent.click(save())
  await waitFor(() => expect(save().disabled).toBe(false))
  expect(things.create).not.toHaveBeenCalled()
  expect(input.value).toBe('guests')

  vi.mocked(things.create).mockResolvedValue(stored)
  act(() => input.focus())
  fireEvent.input(input, { target: { value: 'lan' } })
  fireEvent.keyDown(input, { key: 'Enter', ctrlKey: true })
  await waitFor(() => expect(things.create).toHaveBeenCalledWith({ zone: 'lan' }, expect.anything()))
})
