import { describe, expect, it } from 'vitest'
import { readCode } from './code'

describe('a code', () => {
  it.each([
    ['123456', '123456'],
    [' 123 456 ', '123456'],
    ['012345', '012345'],
    ['abcd-efgh-ijkm-npqr', 'abcd-efgh-ijkm-npqr'],
    ['ABCD EFGH IJKM NPQR', 'abcd-efgh-ijkm-npqr'],
    ['abcdefghijkmnpqr', 'abcd-efgh-ijkm-npqr'],
    ['2345234523452345', '2345-2345-2345-2345'],
  ])('%j is parsed as %j', (typed, code) => expect(readCode(typed)).toBe(code))

  it.each(['', '12345', '1234567', '12345a', 'abcd-efgh', 'lllloooo00001111'])('%j is invalid', (typed) =>
    expect(readCode(typed)).toBeNull(),
  )

  it('is not a recovery code if only the app is accepted', () => {
    expect(readCode('123 456', false)).toBe('123456')
    expect(readCode('abcd-efgh-ijkm-npqr', false)).toBeNull()
  })
})
