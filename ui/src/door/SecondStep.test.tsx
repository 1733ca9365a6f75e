import { MantineProvider } from '@mantine/core'
import { act, cleanup, fireEvent, render, screen } from '@testing-library/react'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { addTexts } from '../i18n/i18n'
import en from './en.json'
import { SecondStep } from './SecondStep'

addTexts('door', en)

const onOver = vi.fn()
beforeEach(() => onOver.mockReset())
afterEach(() => {
  cleanup()
  vi.useRealTimers()
})

function open(methods: ('totp' | 'passkey')[] = ['totp']) {
  render(
    <MantineProvider env="test">
      <SecondStep challenge="c" methods={methods} onOver={onOver} />
    </MantineProvider>,
  )
}

it('starts again when its five minutes are over', () => {
  vi.useFakeTimers()
  open()
  act(() => vi.advanceTimersByTime(5 * 60_000 - 1))
  expect(onOver).not.toHaveBeenCalled()
  act(() => vi.advanceTimersByTime(1))
  expect(onOver).toHaveBeenCalledWith(en.second.expired)
})

it('spends no try on what cannot be a code', async () => {
  const fetch = vi.spyOn(globalThis, 'fetch')
  open()
  fireEvent.change(screen.getByLabelText('Code'), { target: { value: '12345' } })
  fireEvent.click(screen.getByRole('button', { name: 'Continue' }))
  expect(await screen.findByText(en.second.form)).toBeTruthy()
  expect(fetch).not.toHaveBeenCalled()
})

it('says what to do if only a passkey is accepted and the browser does not support it', () => {
  open(['passkey'])
  expect(screen.getByText(en.second.passkey.noneAtAll)).toBeTruthy()
  expect(screen.queryByLabelText('Code')).toBeNull()
})
