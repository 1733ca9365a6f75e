import { expect, it } from 'vitest'
import { HitHistory, slots } from './counters'

const count = (total: number, recent = total) => [
  { rule_id: 'r', packets: recent, bytes: recent * 100, total_packets: total, total_bytes: total * 100, error: '' },
]

it('computes rates from counters', () => {
  const history = new HitHistory()
  history.push(count(100), 100_000)
  expect(history.of('r')).toEqual({ packets: 100, bytes: 10_000, recent: 100, rates: [] })
  history.push(count(110), 102_000)
  history.push(count(110), 104_000)
  expect(history.of('r')?.rates).toEqual([5, 0])
})

it('keeps its totals across a change of the rules', () => {
  const history = new HitHistory()
  history.push(count(100), 100_000)
  history.push(count(106, 6), 102_000)
  expect(history.of('r')).toEqual({ packets: 106, bytes: 10_600, recent: 6, rates: [3] })
})

it('counts from zero after a reset', () => {
  const history = new HitHistory()
  history.push(count(100), 100_000)
  history.push(count(6), 102_000)
  expect(history.of('r')?.rates).toEqual([3])
})

it('keeps a minute, and starts again after a pause', () => {
  const history = new HitHistory()
  for (let step = 0; step < 2 * slots; step++) history.push(count(step), 100_000 + step * 2000)
  expect(history.of('r')?.rates).toHaveLength(slots)
  history.push(count(1000), 900_000)
  expect(history.of('r')?.rates).toEqual([])
})

it('notifies its readers, and forgets deleted rules', () => {
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
