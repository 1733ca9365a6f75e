import { cleanup, render, screen } from '@testing-library/react'
import { afterEach, expect, it } from 'vitest'
import type { components } from '../../api/schema'
import '../../i18n/i18n'
import { Impact } from './Impact'

afterEach(cleanup)

type Area = components['schemas']['ResourceImpact']

const area = (change: Partial<Area>): Area => ({
  area: 'connections',
  computed: true,
  why: '',
  checked: 412,
  count: 0,
  effects: [],
  first: [],
  ...change,
})

it('says that no one is affected only if that was computed', () => {
  const { rerender } = render(<Impact areas={[area({})]} />)
  expect(screen.getByText('No connection is affected: 412 live connections were checked.')).toBeTruthy()
  rerender(<Impact areas={[area({ checked: 0 })]} />)
  expect(screen.getByText('There are no live connections.')).toBeTruthy()
  rerender(<Impact areas={[area({ computed: false, checked: 0, why: 'It would take longer than 2 seconds.' })]} />)
  expect(screen.getByText('Unknown. It would take longer than 2 seconds.')).toBeTruthy()
  expect(screen.queryByText(/no live connections/)).toBeNull()
})

it('counts by effect, and names the first', () => {
  const first = Array.from({ length: 20 }, (_, n) => ({
    what: `tcp 10.0.0.9:${4000 + n} to 198.51.100.7:443`,
    effect: 'cut' as const,
    verdict_before: 'accepted by rule web',
    verdict_after: 'dropped: no rule accepts it',
  }))
  const effects: Area['effects'] = [
    { effect: 'cut', count: 22 },
    { effect: 'blocked_when_reopened', count: 1 },
  ]
  render(<Impact areas={[area({ count: 23, effects, first })]} />)
  expect(screen.getByText('22 connections would be cut')).toBeTruthy()
  expect(screen.getByText('1 connection stays open, but could not be opened again')).toBeTruthy()
  expect(screen.getByText('tcp 10.0.0.9:4019 to 198.51.100.7:443')).toBeTruthy()
  expect(screen.getByText('and 3 more')).toBeTruthy()
  expect(screen.getByRole('alert')).toBeTruthy()
})
