import { expect, it } from 'vitest'
import type { Backup } from '../../api/types'
import { careOf, heights, lastGood, standingOf } from './standing'

const at = '2026-06-01T02:00:00Z'
const now = Date.parse('2026-06-01T12:00:00Z')
const backup = (more: Partial<Backup>) =>
  ({ id: '1', status: 'success', uploaded: false, started_at: at, phase: '', proof: null, ...more }) as Backup
const proof = (status: 'running' | 'proven' | 'failed') => ({ status }) as Backup['proof']

it('knows the state of a backup', () => {
  expect(standingOf(backup({}))).toBe('unproven')
  expect(standingOf(backup({ status: 'running' }))).toBe('running')
  expect(standingOf(backup({ phase: 'upload' }))).toBe('running')
  expect(standingOf(backup({ status: 'failed', proof: proof('proven') }))).toBe('failed')
  expect(standingOf(backup({ proof: proof('proven') }))).toBe('proven')
  expect(standingOf(backup({ proof: proof('failed') }))).toBe('unusable')
  expect(standingOf(backup({ proof: proof('running') }))).toBe('proving')
})

it('knows when the backups need attention', () => {
  expect(careOf([], now)).toBe('none')
  expect(careOf([backup({ uploaded: true })], now)).toBe('none')
  expect(careOf([backup({})], now)).toBeNull()
  expect(careOf([backup({})], now + 24 * 3600_000)).toBe('old')
  expect(careOf([backup({ status: 'failed' }), backup({})], now)).toBe('failed')
  expect(careOf([backup({ status: 'running' }), backup({})], now)).toBeNull()
  expect(careOf([backup({ proof: proof('failed') })], now)).toBe('unusable')
  expect(lastGood([backup({ id: '2', status: 'failed' }), backup({ id: '3' })])?.id).toBe('3')
})

it('draws even the smallest bar', () => {
  expect(heights([0, 50, 100])).toEqual([0.1, 0.5, 1])
  expect(heights([])).toEqual([])
})
