import { MantineProvider } from '@mantine/core'
import { act, cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react'
import { useState } from 'react'
import { afterEach, expect, it, vi } from 'vitest'
import { Choice, Choices, type Creation } from './Choice'

afterEach(cleanup)

const data = [
  { value: 'any', label: 'any' },
  { value: 'lan', label: 'lan' },
  { group: 'Services', items: [{ value: 's1', label: 'HTTPS · tcp 443' }] },
]

const saved = vi.fn()
const typed = vi.fn()

function Form({ create }: { create?: Creation }) {
  const [value, setValue] = useState<string | null>('any')
  saved(value)
  return <Choice label="Zone" data={data} value={value} onChange={setValue} onTyped={typed} create={create} />
}

function open(create?: Creation) {
  saved.mockReset()
  typed.mockReset()
  render(
    <MantineProvider env="test">
      <Form create={create} />
    </MantineProvider>,
  )
  return screen.getByRole<HTMLInputElement>('combobox', { name: 'Zone' })
}

const enter = (input: HTMLInputElement, value: string) => {
  act(() => input.focus())
  fireEvent.input(input, { target: { value } })
}
const leave = (input: HTMLInputElement) => act(() => input.blur())

it('selects its text on focus, by keyboard or by a click', () => {
  const input = open()
  act(() => input.focus())
  expect([input.selectionStart, input.selectionEnd]).toEqual([0, 3])
  input.setSelectionRange(3, 3)
  fireEvent.click(input)
  expect([input.selectionStart, input.selectionEnd]).toEqual([0, 3])
})

it('takes a typed choice in any case', () => {
  const input = open()
  enter(input, 'LAN')
  expect(saved).toHaveBeenLastCalledWith('lan')
  leave(input)
  expect(input.value).toBe('lan')
  expect(typed).toHaveBeenLastCalledWith(null)
})

it('keeps a text that is not a choice, and shows an error', () => {
  const input = open()
  enter(input, 'lan2')
  expect(typed).toHaveBeenLastCalledWith('lan2')
  leave(input)
  expect(input.value).toBe('lan2')
  expect(screen.getByText('“lan2” is not one of the choices. Choose one from the list.')).toBeTruthy()
})

it('offers to create a choice from a text, and creates it when selected', async () => {
  const make = vi.fn(async () => 's1')
  const input = open({ offer: (text) => (text === '443' ? 'Create 443' : undefined), make })
  enter(input, '44')
  expect(screen.queryByText('Create 44')).toBeNull()
  enter(input, '443')
  expect(make).not.toHaveBeenCalled()
  fireEvent.click(screen.getByText('Create 443'))
  await waitFor(() => expect(saved).toHaveBeenLastCalledWith('s1'))
  expect(make).toHaveBeenCalledWith('443')
  expect(input.value).toBe('HTTPS · tcp 443')
  expect(typed).toHaveBeenLastCalledWith(null)
})

it('keeps the text if creating a choice fails', async () => {
  const make = vi.fn(async () => undefined)
  const input = open({ offer: () => 'Create 8443', make })
  enter(input, '8443')
  fireEvent.click(screen.getByText('Create 8443'))
  await waitFor(() => expect(make).toHaveBeenCalled())
  expect(saved).toHaveBeenLastCalledWith('any')
  expect(input.value).toBe('8443')
})

it('shows its value again when the text is removed, or a choice is made', () => {
  const input = open()
  enter(input, '8443')
  leave(input)
  enter(input, '')
  leave(input)
  expect(input.value).toBe('any')
  expect(screen.queryByText(/is not one of the choices/)).toBeNull()

  enter(input, 'http')
  fireEvent.click(screen.getByRole('option', { name: 'HTTPS · tcp 443', hidden: true }))
  expect(saved).toHaveBeenLastCalledWith('s1')
  expect(input.value).toBe('HTTPS · tcp 443')
  expect(typed).toHaveBeenLastCalledWith(null)
})

it('keeps text typed next to several choices', () => {
  const change = vi.fn()
  render(
    <MantineProvider env="test">
      <Choices label="Members" data={data} value={['any']} onChange={change} onTyped={typed} />
    </MantineProvider>,
  )
  const input = screen.getByRole<HTMLInputElement>('combobox', { name: 'Members' })
  enter(input, 'nowhere')
  leave(input)
  expect(input.value).toBe('nowhere')
  expect(screen.getByText(/“nowhere” is not one of the choices/)).toBeTruthy()
  enter(input, 'lan')
  leave(input)
  expect(change).toHaveBeenLastCalledWith(['any', 'lan'])
  expect(input.value).toBe('')
})
