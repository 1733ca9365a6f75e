import { expect, it } from 'vitest'
import { lineOf, rate } from './history'

const point = (second: number, requests: number) => ({ at: new Date(second * 1000).toISOString(), requests })

it('breaks the line where steps are missing', () => {
  const history = { step_seconds: 10, points: [point(10, 1), point(20, 2), point(60, 3)] }
  expect(lineOf(history, ({ requests }) => requests)).toEqual({ times: [10, 20, 30, 60], values: [1, 2, null, 3] })
})

it('formats rates', () => {
  expect(rate(0)).toBe('0')
  expect(rate(0.25)).toBe('0.3')
  expect(rate(1234.4)).toBe('1,234')
})
