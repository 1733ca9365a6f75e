import { MantineProvider } from '@mantine/core'
import { Notifications } from '@mantine/notifications'
import { act, cleanup, render, screen, waitFor } from '@testing-library/react'
import { afterEach, expect, it, vi } from 'vitest'
import { componentStream } from '../../api/streams'
import { toast, toastApplied } from './toast'

afterEach(cleanup)

it('replaces the previous toast', async () => {
  render(
    <MantineProvider env="test">
      <Notifications />
    </MantineProvider>,
  )
  act(() => toast('bad', 'Not saved'))
  await screen.findByText('Not saved')
  act(() => toast('live', 'Saved'))
  await waitFor(() => expect(screen.getAllByRole('alert').map((alert) => alert.textContent)).toEqual(['Saved']))
})

it('says which component does not have a change, and why', async () => {
  const items = [{ name: 'dns', state: 'degraded', daemon: 'down' }] as never
  vi.spyOn(componentStream, 'snapshot').mockReturnValue({ items, status: 'live', dropped: 0, since: 0 })
  render(
    <MantineProvider env="test">
      <Notifications />
    </MantineProvider>,
  )
  act(() =>
    toastApplied('Rule saved', [
      { component: 'dns', state: 'degraded' },
      { component: 'packet-filter', state: 'pending' },
      { component: 'ntp', state: 'live' },
    ]),
  )
  await screen.findByText('Saved, but not live: DNS is not running, the change to Firewall is still being applied.')
})
