import { MantineProvider } from '@mantine/core'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { cleanup, fireEvent, render, screen } from '@testing-library/react'
import { afterEach, expect, it } from 'vitest'
import { Previewed } from './ChangePreview'

afterEach(cleanup)

const created = {
  kind: 'ntp.pool',
  verb: 'create' as const,
  id: '1',
  name: 'time.example.net',
  before: null,
  after: { address: 'time.example.net', kind: 'server', iburst: false, minpoll: 6, note: '' },
  usual: ['iburst', 'minpoll', 'note'],
}

const show = (changes: object[]) =>
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <Previewed changes={changes as never} files={[]} impact={[]} />
      </QueryClientProvider>
    </MantineProvider>,
  )

it('says what it does in a sentence, and folds the defaults of a new row', async () => {
  show([created])
  await screen.findByText('1 NTP server created')
  expect(await screen.findByText('time.example.net')).toBeTruthy()
  expect(screen.queryByText('off')).toBeNull()
  fireEvent.click(screen.getByRole('button', { name: 'and 2 defaults' }))
  expect(screen.getByText('off')).toBeTruthy()
  expect(screen.getByText('6')).toBeTruthy()
})

it('shows every changed field of an existing row', async () => {
  show([{ ...created, verb: 'update', before: { ...created.after, iburst: true }, usual: [] }])
  await screen.findByText('1 NTP server changed')
  expect(await screen.findByText('off')).toBeTruthy()
  expect(screen.queryByRole('button')).toBeNull()
})
