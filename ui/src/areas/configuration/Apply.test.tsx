import { MantineProvider } from '@mantine/core'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { cleanup, render, screen } from '@testing-library/react'
import { afterEach, expect, it } from 'vitest'
import { meQuery } from '../../api/session'
import { addTexts } from '../../i18n/i18n'
import { Apply } from './Apply'
import en from './en.json'

addTexts('configuration', en)
afterEach(cleanup)

it.each(['admin', 'viewer'] as const)('only offers imports to those who may apply them: %s', (role) => {
  const queries = new QueryClient()
  queries.setQueryData(meQuery.queryKey, { role } as never)
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queries}>
        <Apply opened="gateway: 1" />
      </QueryClientProvider>
    </MantineProvider>,
  )
  expect(screen.getByRole('button', { name: en.apply.preview })).toBeTruthy()
  expect(screen.queryByRole('radiogroup', { name: en.apply.from }) !== null).toBe(role === 'admin')
})
