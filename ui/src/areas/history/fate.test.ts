import { expect, it } from 'vitest'
import { fateOf } from './fate'

it('knows the fate of a change set', () => {
  expect(fateOf({ state: 'none', reverted_by: '' })).toBe('none')
  expect(fateOf({ state: 'confirmed', reverted_by: 'x' })).toBe('reverted')
  expect(fateOf({ state: 'taken_back', reverted_by: 'x' })).toBe('taken_back')
})
