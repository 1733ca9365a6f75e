// @vitest-environment node
import { createConfig, lint } from '@redocly/openapi-core'
import { expect, it } from 'vitest'

it('passes the recommended rules for OpenAPI documents', async () => {
  const config = await createConfig({ extends: ['recommended'] })
  const problems = await lint({ ref: '../api/openapi.json', config })
  const told = problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`)
  expect(told).toEqual([])
})
