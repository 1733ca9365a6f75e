import { expect, test } from 'vitest'
import type { PathStep } from '../../api/types'
import { pathFormFrom, questionOf, stationsOf, toneOf } from './chain'

const step = (kind: PathStep['kind'], status: PathStep['status'] = 'ok'): PathStep => ({
  kind,
  status,
  text: '',
  advice: '',
  subject: '',
  duration_ms: 1,
})
const shape = (steps: PathStep[], running = false) =>
  stationsOf(steps, running).map(({ kind, fate }) => `${kind} ${fate}`)

test('a failed step leaves the rest unreached', () => {
  expect(shape([step('name', 'failed')])).toEqual([
    'name failed',
    'route unreached',
    'filter unreached',
    'connect unreached',
  ])
  expect(shape([step('source'), step('nat'), step('route'), step('filter', 'failed')])).toEqual([
    'source ok',
    'nat ok',
    'route ok',
    'filter failed',
    'connect unreached',
  ])
  expect(shape([step('route'), step('filter'), step('connect'), step('certificate', 'failed')])).toEqual([
    'route ok',
    'filter ok',
    'connect ok',
    'certificate failed',
  ])
})

test('while it runs, the next steps are pending', () => {
  expect(shape([], true)).toEqual(['route waiting', 'filter waiting', 'connect waiting'])
  expect(shape([step('route'), step('filter')], true)).toEqual(['route ok', 'filter ok', 'connect waiting'])
})

test('a successful path has no more stations than steps', () => {
  expect(shape([step('route'), step('filter'), step('connect')])).toHaveLength(3)
})

test("the request has the form's values", () => {
  const form = pathFormFrom({ from: 'zone:lan', destination: 'a.example' })
  expect(questionOf(form)).toEqual({ destination: 'a.example', protocol: 'tcp', source_zone: 'lan', port: 443 })
  expect(questionOf({ ...form, from: 'address', source: '10.0.0.2', protocol: 'icmp' })).toEqual({
    destination: 'a.example',
    protocol: 'icmp',
    source: '10.0.0.2',
  })
  expect(questionOf({ ...form, from: 'gateway', source: '10.0.0.2' })).toEqual({
    destination: 'a.example',
    protocol: 'tcp',
    port: 443,
  })
})

test('a warning is not green', () => {
  expect(toneOf({ reaches: true, steps: [step('route')] })).toBe('live')
  expect(toneOf({ reaches: true, steps: [step('nat', 'warning')] })).toBe('warn')
  expect(toneOf({ reaches: false, steps: [step('route', 'failed')] })).toBe('bad')
})
