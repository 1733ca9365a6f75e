import { MantineProvider } from '@mantine/core'
import { render } from '@testing-library/react'
import { expect, it } from 'vitest'
import { addTexts } from '../../i18n/i18n'
import { FieldText } from './FieldText'
import type { FieldSpec } from './fields'

addTexts('test', { site: { mode: { options: { fast: 'As fast as possible' } } } })

function shown(spec: Omit<FieldSpec, 'name'>, value: unknown, kept?: boolean) {
  const field = <FieldText spec={{ name: 'mode', ...spec }} text="test:site" value={value} kept={kept} />
  const { getByTestId, unmount } = render(
    <MantineProvider env="test">
      <div data-testid="field">{field}</div>
    </MantineProvider>,
  )
  const { textContent } = getByTestId('field')
  unmount()
  return textContent
}

it('shows the value of a field in words', () => {
  expect(shown({ type: 'switch' }, true)).toBe('on')
  expect(shown({ type: 'switch' }, undefined)).toBe('off')
  expect(shown({ type: 'choice', options: ['fast'] }, 'fast')).toBe('As fast as possible')
  expect(shown({ type: 'select', choices: [{ value: '7', label: 'shop' }] }, '7')).toBe('shop')
  expect(shown({ type: 'members', choices: [{ value: '7', label: 'shop' }] }, ['7', '8'])).toBe('shop, 8')
  expect(shown({ type: 'span' }, 3600)).toBe('1 h')
  expect(shown({ type: 'size' }, 10 * 1024 ** 2)).toBe('10 MiB')
  expect(shown({ type: 'list' }, ['10.0.0.1', '10.0.0.2'])).toBe('10.0.0.1, 10.0.0.2')
  expect(shown({ type: 'text' }, '')).toBe('–')
  const columns = [
    { name: 'cidr', type: 'mono', span: 3 },
    { name: 'note', type: 'text', span: 3 },
  ] as const
  expect(shown({ type: 'rows', columns }, [{ cidr: '10.0.0.0/8', note: 'Office' }])).toBe('10.0.0.0/8 · Office')
})

it('never shows a secret', () => {
  expect(shown({ type: 'password' }, '', true)).toBe('Configured')
  expect(shown({ type: 'pem-key' }, '', false)).toBe('Not configured')
})
