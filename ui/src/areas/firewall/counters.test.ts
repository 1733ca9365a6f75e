import { expect, it } from 'vitest'
import { HitHistory, slots } from './counters'

const count = (packets: number) => [{ rule_id: 'r', packets, bytes: packets * 100 }]

it('makes rates of counters', () => {
  const history = new HitHistory()
  history.push(count(100), 100_000)
  expect(history.of('r')).toEqual({ packets: 100, bytes: 10_000, rates: [] })
  history.push(count(110), 102_000)
  history.push(count(110), 104_000)
  expect(history.of('r')?.rates).toEqual([5, 0])
})

it('counts from zero after an apply', () => {
  const history = new HitHistory()
  history.push(count(100), 100_000)
  history.push(count(6), 102_000)
  expect(history.of('r')?.rates).toEqual([3])
})

it('keeps a minute, and begins anew after a pause', () => {
  const history = new HitHistory()
  for (let step = 0; step < 2 * slots; step++) history.push(count(step), 100_000 + step * 2000)
  expect(history.of('r')?.rates).toHaveLength(slots)
  history.push(count(1000), 900_000)
  expect(history.of('r')?.rates).toEqual([])
})

it('tells its readers, and forgets rules that are gone', () => {
  const history = new HitHistory()
  let told = 0
  const stop = history.subscribe(() => told++)
  history.push(count(1), 100_000)
  history.push(count(1), 100_000)
  history.push([], 102_000)
  stop()
  history.push(count(1), 104_000)
  expect(told).toBe(2)
})
