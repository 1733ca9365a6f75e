import { MantineProvider } from '@mantine/core'
import { Notifications } from '@mantine/notifications'
import { act, cleanup, render, screen, waitFor } from '@testing-library/react'
import { afterEach, expect, it } from 'vitest'
import { toast } from './toast'

afterEach(cleanup)

it('replaces the toast before it', async () => {
  render(
    <MantineProvider env="test">
      <Notifications />
    </MantineProvider>,
  )
  act(() => toast('bad', 'Not saved'))
  await screen.findByText('Not saved')
  act(() => toast('live', 'Saved'))
  await screen.findByText('Saved')
  await waitFor(() => expect(screen.queryByText('Not saved')).toBeNull())
  expect(screen.getAllByRole('alert')).toHaveLength(1)
})
