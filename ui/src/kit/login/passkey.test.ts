import { expect, it, vi } from 'vitest'
import { passkeyProblem, passkeysHere } from './passkey'

it.each([
  ['NotAllowedError', 'cancelled'],
  ['AbortError', 'cancelled'],
  ['InvalidStateError', 'known'],
  ['SecurityError', 'insecure'],
  ['NotSupportedError', 'unfit'],
])('%s of the browser has a text: %s', (name, text) => expect(passkeyProblem(new DOMException('', name))).toBe(text))

it('ignores errors of the gateway', () => expect(passkeyProblem(new Error('no'))).toBeNull())

it('detects a browser without support', () => {
  vi.stubGlobal('PublicKeyCredential', undefined)
  expect(passkeysHere()).toBe(false)
  vi.stubGlobal(
    'PublicKeyCredential',
    Object.assign(() => {}, { parseRequestOptionsFromJSON: () => {} }),
  )
  expect(passkeysHere()).toBe(true)
  vi.unstubAllGlobals()
})
