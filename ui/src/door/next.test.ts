import { expect, it } from 'vitest'
import { safeNext } from './next'

it('leads to a page of this console and nowhere else', () => {
  expect(safeNext('?next=%2Fsystem%2Fusers%3Fq%3Da')).toBe('/system/users?q=a')
  for (const evil of ['https://evil.example', '//evil.example', '/\\evil.example', 'javascript:alert(1)', '']) {
    expect(safeNext(`?next=${encodeURIComponent(evil)}`)).toBe('/')
  }
})
