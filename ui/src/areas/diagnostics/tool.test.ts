import { expect, test } from 'vitest'
import { bodyOf, commandOf, formFrom, history, standingOf } from './tool'

const result = { output: '', exit_status: 0, duration_ms: 1, timed_out: false, truncated: false }

test('only the fields of a tool are sent', () => {
  const form = { tool: 'ping', target: 'a.example', type: 'MX', server: '192.0.2.53', port: 22 } as const
  expect(bodyOf(form)).toEqual({ target: 'a.example' })
  expect(bodyOf({ ...form, tool: 'dig' })).toEqual({ target: 'a.example', type: 'MX', server: '192.0.2.53' })
  expect(bodyOf({ ...form, tool: 'dig', server: '' })).toEqual({ target: 'a.example', type: 'MX' })
  expect(bodyOf({ ...form, tool: 'tcp' })).toEqual({ target: 'a.example', port: 22 })
  expect(bodyOf({ ...form, tool: 'tcp', target: 'a.example:22', port: '' })).toEqual({ target: 'a.example:22' })
})

test('a link fills in the form, without invalid values', () => {
  expect(formFrom({ tool: 'tcp', target: '192.0.2.1', port: '443' })).toMatchObject({ tool: 'tcp', port: 443 })
  expect(formFrom({ tool: 'rm', type: 'AXFR', port: 'x' })).toMatchObject({ tool: 'ping', type: 'A', port: '' })
})

test('commands have familiar syntax', () => {
  const form = { target: 'a.example', type: 'MX', server: '192.0.2.53', port: '' } as const
  expect(commandOf({ ...form, tool: 'dig' })).toBe('dig a.example MX @192.0.2.53')
  expect(commandOf({ ...form, tool: 'tcp', port: 22 })).toBe('tcp a.example 22')
  expect(commandOf({ ...form, tool: 'curl' })).toBe('curl a.example')
})

test('a run has a result', () => {
  expect(standingOf({})).toBe('running')
  expect(standingOf({ end: { kind: 'stopped' } })).toBe('stopped')
  expect(standingOf({ end: { kind: 'failed', message: 'x' } })).toBe('refused')
  expect(standingOf({ end: { kind: 'result', result } })).toBe('ok')
  expect(standingOf({ end: { kind: 'result', result: { ...result, exit_status: 2 } } })).toBe('failed')
  expect(standingOf({ end: { kind: 'result', result: { ...result, exit_status: 137, timed_out: true } } })).toBe(
    'timedOut',
  )
  expect(standingOf({ end: { kind: 'result', result: { ...result, truncated: true } } })).toBe('truncated')
})

test('the history keeps the newest runs, and clearing it keeps a running one', () => {
  for (let n = 0; n < 25; n++) {
    const id = history.begin(formFrom({ target: `h${n}` }))
    history.change(id, () => ({ end: { kind: 'stopped' } }))
  }
  expect(history.list()).toHaveLength(20)
  expect(history.list()[0]?.form.target).toBe('h24')
  const running = history.begin(formFrom({ target: 'now' }))
  history.change(running, ({ output }) => ({ output: `${output}a` }))
  history.change(running, ({ output }) => ({ output: `${output}b` }))
  history.clear()
  expect(history.list().map(({ form, output }) => [form.target, output])).toEqual([['now', 'ab']])
})
