import { describe, expect, it } from 'vitest'
import type { Planned } from '../../api/types'
import { complaintsOf, deedOf, mediaOf, sumOf } from './plan'

const change = (verb: 'create' | 'update' | 'delete'): Planned['changes'][number] => ({
  kind: 'ntp.pool',
  name: 'pool.example.net',
  verb,
  line: 3,
  fields: { iburst: [false, true] },
  secrets: ['key'],
  with: [],
})

describe('the plan of a document', () => {
  it('describes what happens to a row', () => {
    expect(deedOf(change('update'))).toEqual({
      kind: 'ntp.pool',
      id: '',
      name: 'pool.example.net',
      verb: 'update',
      changes: [{ field: 'iburst', before: false, after: true }],
      secrets: ['key'],
    })
  })

  it('counts', () => {
    expect(sumOf([change('create'), change('create'), change('delete')])).toEqual({ create: 2, update: 0, delete: 1 })
  })

  it('sorts errors by line, and has none for other faults', () => {
    const at = (line: number) => ({ kind: 'ntp.pool', name: 'a', field: '', line, message: 'No.' })
    expect(complaintsOf({ complaints: [at(9), at(2)] }).map(({ line }) => line)).toEqual([2, 9])
    expect(complaintsOf({ holder: 'someone' })).toEqual([])
    expect(complaintsOf(undefined)).toEqual([])
  })

  it('distinguishes JSON from YAML', () => {
    expect(mediaOf('\n {"gateway": 1}')).toBe('application/json')
    expect(mediaOf('gateway: 1')).toBe('application/yaml')
  })
})
