import { expect, it } from 'vitest'
import type { Column } from './DataTable'
import { type Filter, listSearch, narrowed, nextSort, selectRows } from './list-logic'

interface Row {
  name: string
  kind: string
  size: number
}
const rows: Row[] = [
  { name: 'gw10', kind: 'pool', size: 3 },
  { name: 'gw9', kind: 'server', size: 20 },
  { name: 'Alpha', kind: 'pool', size: 100 },
]
const columns: Column<Row>[] = [
  { key: 'name', header: '', cell: () => null, sortBy: (row) => row.name },
  { key: 'size', header: '', cell: () => null, sortBy: (row) => row.size },
]
const filters: Filter<Row>[] = [{ key: 'kind', label: '', options: [], of: (row) => row.kind }]
const select = (search: Record<string, string>) =>
  selectRows(rows, { columns, filters, text: (row) => `${row.name} ${row.kind}`, search }).map((row) => row.name)

it("keeps the server's order until the user sorts", () => {
  expect(select({})).toEqual(['gw10', 'gw9', 'Alpha'])
  expect(select({ sort: 'name' })).toEqual(['Alpha', 'gw9', 'gw10'])
  expect(select({ sort: '-size' })).toEqual(['Alpha', 'gw9', 'gw10'])
  expect(select({ sort: 'unknown' })).toEqual(['gw10', 'gw9', 'Alpha'])
})

it('finds rows that have every word, and those of a filter', () => {
  expect(select({ q: 'GW pool' })).toEqual(['gw10'])
  expect(select({ kind: 'server' })).toEqual(['gw9'])
  expect(select({ kind: 'other' })).toEqual([])
})

it('filters by one of several values of a row', () => {
  const labels: Filter<Row>[] = [{ key: 'label', label: '', options: [], of: (row) => [row.kind, row.name] }]
  const found = selectRows(rows, { columns, filters: labels, text: () => '', search: { label: 'gw9' } })
  expect(found.map((row) => row.name)).toEqual(['gw9'])
})

it('knows whether it is filtered or sorted', () => {
  expect(narrowed(filters, {})).toBe(false)
  expect(narrowed(filters, { other: 'x' })).toBe(false)
  expect(narrowed(filters, { q: 'x' })).toBe(true)
  expect(narrowed(filters, { kind: 'pool' })).toBe(true)
  expect(narrowed(filters, { sort: 'name' })).toBe(true)
})

it('cycles a header through its three states', () => {
  expect(nextSort(undefined, 'name')).toBe('name')
  expect(nextSort('name', 'name')).toBe('-name')
  expect(nextSort('-name', 'name')).toBeUndefined()
})

it('reads a URL that was typed by hand', () => {
  expect(listSearch({ q: 'a', n: 1, empty: '', odd: { a: 1 } })).toEqual({ q: 'a', n: '1' })
})
