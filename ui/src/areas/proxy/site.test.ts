import { expect, it } from 'vitest'
import { siteOperations } from './site'

const ids = { backend: 'b', server: 's', domain: 'd' }
const typed = { name: 'www.example.net', http_to_https: true, scheme: 'http', address: '10.0.0.5', port: 8080 }

it('creates a domain, a backend and a server that refer to each other', () => {
  const operations = siteOperations({ ...typed, where: 'new', backend_id: 'left over' }, ids)
  expect(operations.map(({ kind, id }) => [kind, id])).toEqual([
    ['proxy.backend', 'b'],
    ['proxy.server', 's'],
    ['proxy.domain', 'd'],
  ])
  expect(operations[1]?.body).toMatchObject({ backend_id: 'b', address: '10.0.0.5', port: 8080 })
  expect(operations[2]?.body).toEqual({ name: 'www.example.net', http_to_https: true, backend_id: 'b' })
})

it('creates only the domain if its backend exists', () => {
  const operations = siteOperations({ ...typed, where: 'existing', backend_id: 'old' }, ids)
  expect(operations).toHaveLength(1)
  expect(operations[0]?.body).toMatchObject({ backend_id: 'old' })
})
