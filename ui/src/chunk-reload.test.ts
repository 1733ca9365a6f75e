import { beforeEach, expect, it, vi } from 'vitest'
import { mayReload, reloadOnChunkFailure } from './chunk-reload'

beforeEach(() => sessionStorage.clear())

it('lets each build reload once', () => {
  expect(mayReload('/assets/index-old.js', sessionStorage)).toBe(true)
  expect(mayReload('/assets/index-old.js', sessionStorage)).toBe(false)
  expect(mayReload('/assets/index-new.js', sessionStorage)).toBe(true)
})

it('does not reload if it cannot remember that', () => {
  const broken = {
    getItem: () => null,
    setItem: () => {
      throw new Error('forbidden')
    },
  }
  expect(mayReload('/assets/index.js', broken)).toBe(false)
})

it('reloads on the first failed chunk, and reports the second', () => {
  const reload = vi.fn()
  reloadOnChunkFailure('/assets/index.js', reload)
  const first = new Event('vite:preloadError', { cancelable: true })
  window.dispatchEvent(first)
  const second = new Event('vite:preloadError', { cancelable: true })
  window.dispatchEvent(second)
  expect(reload).toHaveBeenCalledTimes(1)
  expect(first.defaultPrevented).toBe(true)
  expect(second.defaultPrevented).toBe(false)
})
