import { describe, expect, it } from 'vitest'
import en from './en.json'
import { answerOf, fullName, recordShape, recordTypes, splitName } from './record'

describe('the full name of a record', () => {
  it.each([
    ['', 'corp.example.net', 'corp.example.net'],
    ['@', 'corp.example.net', 'corp.example.net'],
    ['www', 'corp.example.net', 'www.corp.example.net'],
    [' a.b ', 'corp.example.net', 'a.b.corp.example.net'],
    ['*', 'corp.example.net', '*.corp.example.net'],
    ['www.corp.example.net', 'corp.example.net', 'www.corp.example.net'],
    ['corp.example.net', 'corp.example.net', 'corp.example.net'],
    ['WWW.Corp.Example.NET', 'corp.example.net', 'www.corp.example.net'],
    ['www.example.org.', 'corp.example.net', 'www.example.org'],
    ['www.', 'corp.example.net', 'www'],
    // The same ending, but no label boundary: not in the zone.
    ['mycorp.example.net', 'corp.example.net', 'mycorp.example.net.corp.example.net'],
    ['5', '10.in-addr.arpa', '5.10.in-addr.arpa'],
  ])('%j in %s is %s', (typed, zone, full) => {
    expect(fullName(typed, zone)).toBe(full)
  })

  it('is split into its own part and that of the zone', () => {
    expect(splitName({ name: 'www' }, 'example.net')).toEqual(['www', '.example.net'])
    expect(splitName({ name: '@' }, 'example.net')).toEqual(['example.net', ''])
    expect(splitName({ name: 'www.example.org.' }, 'example.net')).toEqual(['www.example.org', ''])
  })
})

it('shows the numbers of MX and SRV before the value, and of no other type', () => {
  const plain = { value: 'mail.example.net', priority: null, weight: null, port: null }
  expect(answerOf({ ...plain, type: 'MX', priority: 10 })).toBe('10 mail.example.net')
  expect(answerOf({ ...plain, type: 'SRV', priority: 0, weight: 5, port: 5060 })).toBe('0 5 5060 mail.example.net')
  expect(answerOf({ ...plain, type: 'MX', value: '10 mail.example.net' })).toBe('10 mail.example.net')
  expect(answerOf({ ...plain, type: 'A', priority: 10 })).toBe('mail.example.net')
})

it('does not send the numbers of another type', () => {
  const { write } = recordShape('zone-1')
  const typed = { name: 'x', value: 'y', priority: 1, weight: 2, port: 3 }
  expect(write({ ...typed, type: 'MX' })).toMatchObject({ zone_id: 'zone-1', priority: 1, weight: null, port: null })
  expect(write({ ...typed, type: 'A' })).toMatchObject({ priority: null, weight: null, port: null })
})

it('has help and an example for the value of every type', () => {
  for (const type of recordTypes) {
    expect(en.record.value.helps[type], type).toBeTruthy()
    expect(en.record.value.examples[type], type).toBeTruthy()
  }
})
