import { describe, expect, it } from 'vitest'
import { localInput } from '../../kit/text/format'
import { aroundSearch, barsOf, isFiltered, logQuery, rangeSearch, sourcesOf, streamQuery } from './log-logic'

const entry = (at: number, level: 'error' | 'warn' | 'info' | 'debug' = 'info') => ({
  time: new Date(at).toISOString(),
  level,
})

describe('the query', () => {
  it("has the gateway's filters, and times in UTC", () => {
    const search = { sources: 'dns,ntp', text: 'a b', since: '2026-03-01T12:00:00', q: 'x', until: 'nonsense' }
    expect(logQuery(search)).toEqual({
      sources: 'dns,ntp',
      text: 'a b',
      since: new Date('2026-03-01T12:00:00').toISOString(),
    })
    expect(streamQuery(search)).toEqual({ sources: 'dns,ntp', text: 'a b' })
    expect(isFiltered({ q: 'x', live: '1' })).toBe(false)
  })

  it('formats times as the inputs show them', () => {
    const at = new Date('2026-03-01T12:34:56').getTime()
    expect(localInput(at)).toBe('2026-03-01T12:34:56')
    expect(rangeSearch('hour', at)).toEqual({ since: '2026-03-01T11:34:56', until: undefined })
    expect(aroundSearch({ time: new Date(at).toISOString() })).toEqual({
      since: '2026-03-01T12:33:56',
      until: '2026-03-01T12:35:56',
    })
  })
})

describe('the bars', () => {
  it('count every entry once, by level', () => {
    const begin = Date.UTC(2026, 2, 1, 12)
    const entries = Array.from({ length: 500 }, (_, n) =>
      entry(begin + n * 37_000, n % 10 === 0 ? 'error' : n % 5 === 0 ? 'warn' : 'info'),
    )
    const bars = barsOf(entries)
    expect(bars.length).toBeGreaterThan(10)
    expect(bars.length).toBeLessThanOrEqual(60)
    const sum = (part: 'all' | 'errors' | 'warnings') => bars.reduce((all, bar) => all + bar[part], 0)
    expect([sum('all'), sum('errors'), sum('warnings')]).toEqual([500, 50, 50])
    bars.slice(1).forEach((bar, at) => {
      expect(bar.from).toBe(bars[at]?.to)
    })
  })

  it('have round bounds, for seconds as for years', () => {
    expect(barsOf([entry(0), entry(1500)]).map(({ from }) => from)).toEqual([0, 1000])
    const years = barsOf([entry(0), entry(20 * 365 * 86_400_000)])
    expect(years.length).toBeLessThanOrEqual(60)
    expect(years.at(-1)?.all).toBe(1)
  })

  it('are empty if there is nothing to compare', () => {
    expect(barsOf([])).toEqual([])
    expect(barsOf([entry(0)])).toEqual([])
  })
})

it('knows the log sources of a component', () => {
  expect(sourcesOf('dns')).toBe('dns')
  expect(sourcesOf('something new')).toBe('api')
})
