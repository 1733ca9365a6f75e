import { expect, it } from 'vitest'
import { withPrefix } from './address-rows'

it('splits an address and its prefix length', () => {
  expect(withPrefix(' 10.20.0.1/24 ')).toEqual({ address: '10.20.0.1', prefix: 24 })
  expect(withPrefix('2001:db8::1/64')).toEqual({ address: '2001:db8::1', prefix: 64 })
  for (const text of ['10.20.0.1', '10.20.0.1/', 'lan/24', '']) expect(withPrefix(text)).toBeUndefined()
})
