import { expect, it } from 'vitest'
import en from './en.json'
import { ssoErrors, ssoErrorText } from './sso'

it('has a text for every reason', () => {
  expect(Object.keys(en.sso.errors).sort()).toEqual([...ssoErrors].sort())
  expect(new Set(Object.values(en.sso.errors)).size).toBe(ssoErrors.length)
})

it.each([
  ['', null],
  ['?next=/x', null],
  ['?sso_error=', null],
  ['?sso_error=no_account', 'sso.errors.no_account'],
  ['?next=/x&sso_error=denied', 'sso.errors.denied'],
  ['?sso_error=never-heard', 'sso.errors.failed'],
  ['?sso_error=<b>', 'sso.errors.failed'],
  ['?sso_error=__proto__', 'sso.errors.failed'],
])('%j is shown as %j', (search, text) => expect(ssoErrorText(search)).toBe(text))
