import { describe, expect, it } from 'vitest'
import { rememberNext, safeNext, takeNext } from './next'

it('returns to a page of this console and nowhere else', () => {
  expect(safeNext('?next=%2Fsystem%2Fusers%3Fq%3Da')).toBe('/system/users?q=a')
  for (const evil of ['https://evil.example', '//evil.example', '/\\evil.example', 'javascript:alert(1)', '']) {
    expect(safeNext(`?next=${encodeURIComponent(evil)}`)).toBe('/')
  }
})

describe('over a single sign-on', () => {
  it('the requested page is kept, once', () => {
    rememberNext('?next=/system/users')
    expect(takeNext()).toBe('/system/users')
    expect(takeNext()).toBe('/')
  })

  it('another site is not a page of the console', () => {
    rememberNext('?next=//evil.example')
    expect(takeNext()).toBe('/')
  })
})
