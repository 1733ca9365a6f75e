import { expect, test } from 'vitest'
import { configShape, failsOpen, stateOf } from './config-form'

const stored = {
  enabled: true,
  mode: 'blocking',
  paranoia_level: 2,
  rule_exclusions: [942100, 941100],
  exclusion_notes: { '942100': 'the search field' },
  exclusions: [{ rule_id: 941130, path: '/editor', exact: true, variable: 'ARGS', parameter: 'text', note: '' }],
  fail_open: null,
}

test('unchanged settings are written as they were read', () => {
  expect(configShape.write(configShape.read(stored))).toEqual(stored)
})

test('a rule and its note are one row, and an empty row is ignored', () => {
  const form = configShape.read(stored)
  expect(form.rule_exclusions).toEqual([
    { rule_id: 942100, note: 'the search field' },
    { rule_id: 941100, note: '' },
  ])
  const written = configShape.write({
    ...form,
    rule_exclusions: [
      { rule_id: 920350, note: 'by address' },
      { rule_id: null, note: '' },
    ],
    exclusions: [{ rule_id: null, path: '', exact: false, variable: '', parameter: '', note: '' }],
  })
  expect(written).toMatchObject({
    rule_exclusions: [920350],
    exclusion_notes: { '920350': 'by address' },
    exclusions: [],
  })
})

test('the default for failures depends on the mode', () => {
  for (const [choice, value] of [
    ['mode', null],
    ['refuse', false],
    ['pass', true],
  ] as const) {
    expect(configShape.read({ ...stored, fail_open: value }).fail_open).toBe(choice)
    expect(configShape.write({ ...configShape.read(stored), fail_open: choice }).fail_open).toBe(value)
  }
  expect(failsOpen({ fail_open: null, mode: 'detection' })).toBe(true)
  expect(failsOpen({ fail_open: null, mode: 'blocking' })).toBe(false)
  expect(failsOpen({ fail_open: true, mode: 'blocking' })).toBe(true)
  expect(failsOpen({ fail_open: false, mode: 'detection' })).toBe(false)
})

test('a domain without settings is off', () => {
  expect(stateOf(undefined)).toBe('off')
  expect(stateOf({ enabled: false, mode: 'blocking' })).toBe('off')
  expect(stateOf({ enabled: true, mode: 'detection' })).toBe('detection')
})
