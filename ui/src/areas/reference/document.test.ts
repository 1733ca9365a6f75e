// @vitest-environment node
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { type ApiCall, addressOf, callsOf, curlOf, type Document, exampleOf, fieldsOf, typeText } from './document'

const document = JSON.parse(readFileSync('../api/openapi.json', 'utf8')) as Document
const calls = callsOf(document)
const call = (id: string) => calls.find((one) => one.id === id) as ApiCall

it('describes every call of the gateway, with its example and its fields', () => {
  expect(calls.length).toBe(Object.values(document.paths).flatMap((methods) => Object.keys(methods)).length)
  for (const { id, tag, summary, body, answers } of calls) {
    expect([id, tag, summary].every(Boolean), id).toBe(true)
    expect(
      answers.every(({ description }) => description),
      id,
    ).toBe(true)
    if (body) expect(() => JSON.stringify(exampleOf(document, body.schema)), id).not.toThrow()
    for (const { data } of answers) if (data) fieldsOf(document, data, false)
  }
})

it('knows which answers a page cannot show', () => {
  expect(calls.filter(({ file }) => file).map(({ id }) => id)).toContain('auth.oidc.login')
  expect(call('openapi').file).toBe(false)
  expect(call('ntp.pool.list').file).toBe(false)
})

it('shows what a body takes and requires', () => {
  const { body, policy, audit } = call('ntp.pool.create')
  expect(policy).toBe('write')
  expect(audit).toBe('ntp.pool.create')
  const fields = fieldsOf(document, body?.schema ?? {}, true)
  expect(fields.find(({ path }) => path === 'address')).toMatchObject({ required: true, type: 'string' })
  expect(fields.map(({ path }) => path)).not.toContain('created_at')
  expect(Object.keys(exampleOf(document, body?.schema ?? {}, true) as object)).toEqual(['address'])
})

it('expands a recursive schema once', () => {
  const tree: Document = {
    info: { version: '1' },
    paths: {},
    components: {
      responses: {},
      schemas: {
        Node: {
          type: 'object',
          required: ['id'],
          properties: {
            id: { type: 'string', format: 'uuid' },
            children: { type: 'array', items: { $ref: '#/components/schemas/Node' } },
            size: { type: ['integer', 'null'] },
          },
        },
      },
    },
  }
  const node = { $ref: '#/components/schemas/Node' }
  expect(fieldsOf(tree, node, false).map(({ path }) => path)).toEqual(['id', 'children', 'size'])
  expect(typeText(tree, { type: 'array', items: node })).toBe('Node[]')
  expect(exampleOf(tree, node)).toEqual({
    id: '00000000-0000-0000-0000-000000000000',
    children: [null],
    size: null,
  })
  expect(exampleOf(tree, node, true)).toEqual({ id: '00000000-0000-0000-0000-000000000000' })
})

it('builds the URL once its path is complete', () => {
  const connections = call('diagnostics.connection.list')
  expect(addressOf(connections, { source: '10.0.0.1', port: '' })).toBe(
    '/api/v1/diagnostics/connections?source=10.0.0.1',
  )
  const one = call('ntp.pool.get')
  expect(addressOf(one, {})).toBe(null)
  expect(addressOf(one, { id: 'a/b' })).toBe('/api/v1/ntp/pools/a%2Fb')
  expect(curlOf(call('ntp.pool.create'), '/api/v1/ntp/pools', `{"a":"it's"}`, 'https://gw')).toBe(
    `curl -X POST 'https://gw/api/v1/ntp/pools' \\\n  -H "Authorization: Bearer $TOKEN" \\\n  -H 'Content-Type: application/json' \\\n  -d '{"a":"it'\\''s"}'`,
  )
})
