import { expect, test } from 'vitest'
import { lineOf } from './code-line'

test('an error shows its line', () => {
  const text = '# a remark\nInclude /etc/passwd\n'
  expect(lineOf('line 2: Include is not allowed', text)).toEqual({ number: 2, text: 'Include /etc/passwd' })
  expect(lineOf('Line 1: what is this', text)).toEqual({ number: 1, text: '# a remark' })
})

test('without a line, or with one that does not exist, nothing is shown', () => {
  expect(lineOf(undefined, 'a')).toBeUndefined()
  expect(lineOf('It is too long.', 'a')).toBeUndefined()
  expect(lineOf('line 9: too late', 'a')).toBeUndefined()
})
