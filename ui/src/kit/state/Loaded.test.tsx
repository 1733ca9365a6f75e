import { MantineProvider } from '@mantine/core'
import { act, cleanup, render, screen } from '@testing-library/react'
import { afterEach, expect, it, vi } from 'vitest'
import { clockTime } from '../text/format'
import { Loaded } from './Loaded'

afterEach(() => {
  cleanup()
  vi.useRealTimers()
})

const show = (query: object) =>
  render(
    <MantineProvider env="test">
      <Loaded query={query as never}>{(data: string) => <p>{data}</p>}</Loaded>
    </MantineProvider>,
  )

it('says what it waits for, and since when, after three seconds', () => {
  vi.useFakeTimers()
  const began = Date.now()
  show({ data: undefined, isError: false })
  act(() => vi.advanceTimersByTime(2900))
  expect(screen.getByRole('status').textContent).toBe('')
  act(() => vi.advanceTimersByTime(200))
  expect(screen.getByRole('status').textContent).toBe(`Waiting for the gateway since ${clockTime(began)}.`)
})

it('keeps its data when the gateway stops answering, and shows its age', () => {
  const dataUpdatedAt = Date.now() - 60_000
  const error = new Error('The gateway has not answered for 10 s.')
  show({ data: 'old', isError: true, error, dataUpdatedAt })
  expect(screen.getByText('old')).toBeTruthy()
  expect(screen.getByText(`Out of date. Last update ${clockTime(dataUpdatedAt)}.`)).toBeTruthy()
})
