import { expect, it } from 'vitest'
import { shadowed } from './shadow'

const rule = (id: string, path_prefix: string, domain_id = 'd', active = true) => ({
  id,
  path_prefix,
  domain_id,
  active,
})

it('finds rules shadowed by an earlier one of the same domain', () => {
  const found = shadowed([
    rule('api', '/api'),
    rule('v2', '/api/v2'),
    rule('app', '/app'),
    rule('elsewhere', '/api/v2', 'e'),
    rule('all', '/'),
    rule('late', '/late'),
  ])
  expect([...found].map(([id, by]) => [id, by.id])).toEqual([
    ['v2', 'api'],
    ['late', 'all'],
  ])
})

it('ignores rules that are off', () => {
  expect(shadowed([rule('off', '/', 'd', false), rule('a', '/a'), rule('b', '/a/b', 'd', false)]).size).toBe(0)
})
