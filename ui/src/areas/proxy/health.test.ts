import { expect, it } from 'vitest'
import en from './en.json'
import { arranged, checkCode, Live, type Stat } from './health'

const row = (part: Partial<Stat>) => ({ backend_id: 'b', server: 'BACKEND', status: 'UP', ...part }) as Stat

it('knows the state of a backend', () => {
  const live = new Live({
    error: '',
    backends: [row({ status: 'DEGRADED' }), row({ backend_id: 'c', status: 'NO CHECK' })],
  })
  const one = [{ active: true }]
  expect(live.healthOf({ id: 'b', active: true }, one)).toBe('degraded')
  expect(live.healthOf({ id: 'c', active: true }, one)).toBe('unchecked')
  expect(live.healthOf({ id: 'b', active: false }, one)).toBe('off')
  expect(live.healthOf({ id: 'b', active: true }, [])).toBe('empty')
  expect(live.healthOf({ id: 'b', active: true }, [{ active: false }])).toBe('empty')
  expect(live.healthOf({ id: 'new', active: true }, one)).toBe('unknown')
})

it("finds a server by HAProxy's name for it", () => {
  const live = new Live({ error: '', backends: [row({ server: 'web_1_example_net', status: 'DOWN' })] })
  const server = { backend_id: 'b', name: 'web 1.example.net', active: true }
  expect(live.healthOfServer(server)).toBe('down')
  expect(live.healthOfServer({ ...server, name: 'web 2' })).toBe('unknown')
})

it('has texts for the results of a health check', () => {
  expect(checkCode({ check_status: '* L4CON' })).toBe('L4CON')
  expect(en.checks.L4CON).toBe('connection refused')
  expect(Object.keys(en.checks)).toEqual(
    expect.arrayContaining(['L4TOUT', 'L6RSP', 'L7STS', 'L7TOUT', 'L7RSP', 'L4OK', 'L7OK']),
  )
})

it('puts each backend before its servers', () => {
  const rows = [row({ server: 'web-1', name: 'z' }), row({ name: 'z' }), row({ name: 'a' })]
  expect(arranged(rows, ({ name }) => name).map(({ name, server }) => `${name} ${server}`)).toEqual([
    'a BACKEND',
    'z BACKEND',
    'z web-1',
  ])
})
