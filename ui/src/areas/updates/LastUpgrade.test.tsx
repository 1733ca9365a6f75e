import { MantineProvider } from '@mantine/core'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { act, cleanup, render, screen } from '@testing-library/react'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { Upgrade } from '../../api/types'
import { clockTime } from '../../kit/text/format'
import { LastUpgrade } from './LastUpgrade'

const began = '2026-06-01T02:00:00Z'
const step = { name: 'install', began_at: began, ended_at: null, output: '', error: '' } as const
const running: Upgrade = {
  id: '1',
  state: 'running',
  from: '1.0.0',
  to: '1.1.0',
  summary: 'The gateway is being upgraded to version 1.1.0.',
  reason: '',
  began_at: began,
  ended_at: null,
  steps: [{ ...step, state: 'running' }],
}
const takenBack: Upgrade = {
  ...running,
  state: 'taken_back',
  summary: 'Version 1.1.0 did not work here. Version 1.0.0 is installed again, with its data.',
  reason: 'The console did not answer.',
  ended_at: began,
  steps: [{ ...step, state: 'failed', ended_at: began, output: 'unpacking', error: 'dpkg: no' }],
}

/** What the gateway answers: an upgrade and its version, or nothing. */
let answers: { upgrade: Upgrade; version: string } | null

const reload = vi.fn()

beforeEach(() => {
  vi.useFakeTimers()
  vi.setSystemTime('2026-06-01T02:00:10Z')
  sessionStorage.clear()
  reload.mockClear()
  vi.stubGlobal('location', { ...location, origin: location.origin, reload })
  vi.stubGlobal('fetch', async (request: Request) => {
    if (!answers) return new Response('<h1>503</h1>', { status: 503 })
    const data = request.url.endsWith('/health') ? { version: answers.version, database: 'up' } : answers.upgrade
    return new Response(JSON.stringify({ data, error: null }), { headers: { 'Content-Type': 'application/json' } })
  })
})

afterEach(() => {
  cleanup()
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

const pass = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms))

async function show() {
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
        <LastUpgrade />
      </QueryClientProvider>
    </MantineProvider>,
  )
  await pass(100)
}

it('keeps polling while the gateway is away, says so, and after two minutes says what to do', async () => {
  answers = { upgrade: running, version: '1.0.0' }
  await show()
  expect(screen.getByText('Install the new version')).toBeTruthy()
  const last = clockTime(Date.now() - 100)
  answers = null
  await pass(5000)
  expect(screen.getByText(`The gateway has not answered since ${last}.`)).toBeTruthy()
  expect(screen.getByText(running.summary)).toBeTruthy()
  expect(screen.queryByText('The upgrade is taking longer than usual.')).toBeNull()
  await pass(120_000)
  expect(screen.getByText('The upgrade is taking longer than usual.')).toBeTruthy()
  expect(screen.getByText('gateway-ctl upgrade')).toBeTruthy()
  expect(reload).not.toHaveBeenCalled()

  answers = { upgrade: takenBack, version: '1.0.0' }
  await pass(5000)
  expect(screen.getByText(takenBack.summary)).toBeTruthy()
  expect(screen.getByText(takenBack.reason)).toBeTruthy()
  expect(screen.getByText('unpacking')).toBeTruthy()
  expect(screen.queryByText(/has not answered/)).toBeNull()
})

it('reloads once if another version is running', async () => {
  answers = { upgrade: running, version: '1.0.0' }
  await show()
  answers = { upgrade: running, version: '1.1.0' }
  await pass(20_000)
  expect(reload).toHaveBeenCalledTimes(1)
})
