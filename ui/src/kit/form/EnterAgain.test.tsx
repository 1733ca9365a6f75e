import { MantineProvider } from '@mantine/core'
import { cleanup, render, screen } from '@testing-library/react'
import { afterEach, expect, it } from 'vitest'
import { addTexts } from '../../i18n/i18n'
import { EnterAgainNotice, lostFields } from './EnterAgain'
import type { FieldSpec } from './fields'

addTexts('test', {
  channel: { kind: { label: 'Kind' }, headers: { label: 'Headers' }, password: { label: 'Password' } },
})
afterEach(cleanup)

const fields: FieldSpec[] = [
  { name: 'kind', type: 'segments', covers: ['settings'] },
  { name: 'headers', type: 'rows', covers: ['settings.headers'] },
  { name: 'password', type: 'password', covers: ['settings.password'] },
]

it('finds the field of each secret', () => {
  const row = { enter_again: ['settings.headers.X-Key', 'settings.headers.X-Other', 'settings.password'] }
  expect(lostFields(row, fields)).toEqual(['headers', 'password'])
  expect(lostFields({ enter_again: [] }, fields)).toEqual([])
  expect(lostFields({}, fields)).toEqual([])
})

it('lists the secrets to enter again, and is hidden if there are none', () => {
  const show = (enter_again: string[]) =>
    render(
      <MantineProvider env="test">
        <EnterAgainNotice row={{ enter_again }} fields={fields} text="test:channel" />
      </MantineProvider>,
    )
  show([])
  expect(screen.queryByRole('alert')).toBeNull()
  show(['settings.password', 'settings.headers.X-Key'])
  expect(screen.getByRole('alert').textContent).toContain('Password, Headers')
})
