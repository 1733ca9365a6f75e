import { expect, it } from 'vitest'
import type { Explanation } from '../../api/types'
import { cuts } from '../../kit/change/own-connection'
import { decidingStep, questionFrom, skippedRules, stationsOf } from './explain-logic'

const step = (stage: string, verdict?: string) => ({ stage, title: '', outcome: 'matched', reason: '', verdict })
const answer = (part: object) =>
  ({
    verdict: 'accept',
    path: 'forward',
    in_interface: 'lan0',
    in_zone: 'lan',
    out_interface: 'wan0',
    out_zone: 'wan',
    nat: [],
    steps: [step('routing'), step('forward', 'accept')],
    ...part,
  }) as unknown as Explanation
const way = (part: object) => stationsOf(answer(part)).map(({ stage, fate }) => `${stage} ${fate}`)

it('follows a packet through the gateway', () => {
  expect(way({})).toEqual([
    'in passed',
    'prerouting passed',
    'routing passed',
    'forward passed',
    'postrouting passed',
    'out passed',
  ])
})

it('ends where the packet ends', () => {
  const dropped = { verdict: 'drop', steps: [step('routing'), step('forward', 'drop')] }
  expect(way(dropped).slice(3)).toEqual(['forward stopped', 'postrouting unreached', 'out unreached'])
  expect(way({ ...dropped, path: 'input', steps: [step('input', 'drop')] }).slice(2)).toEqual([
    'routing passed',
    'input stopped',
    'out unreached',
  ])
  expect(way({ verdict: 'drop', path: 'unroutable', steps: [step('routing')] }).slice(1)).toEqual([
    'prerouting passed',
    'routing stopped',
    'out unreached',
  ])
})

it('shows what is rewritten, and which way it goes', () => {
  const nat = [
    { kind: 'dnat', name: '', from: '192.0.2.1:443', to: '10.0.0.5:8443' },
    { kind: 'masquerade', name: '', from: '10.0.0.2', to: '192.0.2.1' },
  ]
  expect(stationsOf(answer({ nat })).map(({ detail }) => detail)).toEqual([
    'lan0 · lan',
    '192.0.2.1:443 → 10.0.0.5:8443',
    '',
    '',
    '10.0.0.2 → 192.0.2.1',
    'wan0 · wan',
  ])
})

it('finds the decisive step', () => {
  const steps = [step('input', 'accept'), step('forward', 'drop'), step('postrouting')] as Explanation['steps']
  expect(decidingStep(steps)?.stage).toBe('forward')
})

it('reads the question from the URL', () => {
  expect(questionFrom({})).toBeNull()
  expect(questionFrom({ mine: 'true', source: '10.0.0.1' })).toEqual({ mine: true })
  const asked = { source: '10.0.0.1', destination: '10.0.0.2', destination_port: '443', icmp_type: '8' }
  expect(questionFrom({ ...asked, in: 'zone:lan', protocol: 'tcp' })).toEqual({
    mine: false,
    in_zone: 'lan',
    source: '10.0.0.1',
    destination: '10.0.0.2',
    protocol: 'tcp',
    destination_port: 443,
  })
  expect(questionFrom({ ...asked, in: 'interface:br0:1', protocol: 'icmp' })).toMatchObject({
    in_interface: 'br0:1',
    icmp_type: 8,
  })
})

it('warns if a connection would not reach the gateway', () => {
  expect(cuts({ verdict: 'accept', path: 'input' })).toBe(false)
  expect(cuts({ verdict: 'drop', path: 'input' })).toBe(true)
  expect(cuts({ verdict: 'accept', path: 'forward' })).toBe(true)
})

it('lists the rules for other zones before the end', () => {
  const rules = ['a', 'b', 'c', 'd'].map((id) => ({ id }))
  const asked = (rule_id: string, verdict?: string) => ({ stage: 'forward', rule_id, verdict }) as never
  const ids = (steps: never[]) => skippedRules(rules, steps).map(({ id }) => id)
  expect(ids([asked('b'), asked('c', 'accept')])).toEqual(['a'])
  expect(ids([asked('b'), asked('', 'drop')])).toEqual(['a', 'c', 'd'])
  expect(ids([asked('', 'accept')])).toEqual([])
})
