import { describe, expect, it, vi } from 'vitest'
import { Fault } from '../../api/fault'
import { fieldOf, placeFault, sortComplaints } from './form-errors'

const known = ['address', 'allow_acl', 'makestep']
const refused = (fields: Record<string, string>) =>
  new Fault({ code: 'validation_failed', message: 'Some fields are wrong.', status: 400, fields })

describe('an error', () => {
  it('finds its field, also from inside a list', () => {
    expect(fieldOf('address', known)).toBe('address')
    expect(fieldOf('allow_acl.1', known)).toBe('allow_acl')
    expect(fieldOf('allow_acl[1]', known)).toBe('allow_acl')
    expect(fieldOf('operations.1.body.address', known)).toBe('address')
    expect(fieldOf('addressee', known)).toBeUndefined()
    expect(fieldOf('address_id', known, { address_id: 'address' })).toBe('address')
  })

  it('joins others about the same field', () => {
    expect(sortComplaints(refused({ 'allow_acl[0]': 'One.', 'allow_acl[2]': 'Two.' }), known)).toEqual({
      atField: { allow_acl: 'One. Two.' },
      elsewhere: [],
    })
  })
})

describe('a fault', () => {
  it('is shown at its fields, and focuses the first one of the form', () => {
    const setError = vi.fn()
    expect(placeFault(refused({ makestep: 'B.', address: 'A.' }), known, setError)).toBe('')
    expect(setError).toHaveBeenCalledWith('address', { type: 'server', message: 'A.' }, { shouldFocus: true })
    expect(setError).toHaveBeenCalledWith('makestep', { type: 'server', message: 'B.' }, { shouldFocus: false })
  })

  it('about a field that the form does not have stays readable', () => {
    expect(placeFault(refused({ hidden: 'Wrong.' }), known, vi.fn())).toBe('hidden: Wrong.')
  })

  it('without fields is shown as its message', () => {
    expect(placeFault(new Fault({ code: 'conflict', message: 'In use.', status: 409 }), known, vi.fn())).toBe('In use.')
  })
})
