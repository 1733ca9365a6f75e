import { MantineProvider } from '@mantine/core'
import { cleanup, render, screen } from '@testing-library/react'
import { afterEach, expect, it } from 'vitest'
import type { Service } from '../../api/types'
import { addTexts } from '../../i18n/i18n'
import en from './en.json'
import { ServiceBadge, UnknownServices } from './ServiceBadge'

addTexts('overview', en)

afterEach(cleanup)

const silent = 'The service manager did not answer in time.'
const service = (name: string, active: Service['active'], detail = ''): Service => ({
  name,
  active,
  detail,
  since: null,
})

it('shows unknown states in grey, and each reason once', () => {
  render(
    <MantineProvider env="test">
      <ServiceBadge active="unknown" detail={silent} />
      <UnknownServices services={[service('chrony', 'unknown', silent), service('unbound', 'unknown', silent)]} />
    </MantineProvider>,
  )
  expect(screen.getByText('unknown').getAttribute('data-tone')).toBe('off')
  expect(screen.getByRole('status').textContent).toBe(`Some states are unknown. ${silent}`)
})

it('says nothing if every daemon answers', () => {
  render(
    <MantineProvider env="test">
      <UnknownServices services={[service('chrony', 'failed', 'could not bind')]} />
    </MantineProvider>,
  )
  expect(screen.queryByRole('status')).toBeNull()
})
