// Generates from the OpenAPI document: the types in src/api/schema.ts, and the defaults and limits of each kind's
// fields in src/api/fields.ts. With --check it fails if one of them is stale.
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'

const check = process.argv.includes('--check')
const here = (path) => new URL(`../${path}`, import.meta.url).pathname
const document = here('../api/openapi.json')

const types = spawnSync(
  here('node_modules/.bin/openapi-typescript'),
  [document, '--default-non-nullable=false', '-o', here('src/api/schema.ts'), ...(check ? ['--check'] : [])],
  { stdio: 'inherit' },
)
if (types.status !== 0) process.exit(types.status ?? 1)

const { paths, components } = JSON.parse(readFileSync(document, 'utf8'))

const typesOf = ({ type }) => [type].flat()

/** The initial value of a field without a default in the API. */
function blank(schema) {
  const [type] = typesOf(schema)
  if (typesOf(schema).includes('null')) return null
  return { string: '', array: [], boolean: false }[type] ?? null
}

function field(schema, required) {
  // A secret may stay as stored, and null and false are values, so such fields may look empty.
  const filled = required && !schema.writeOnly && !typesOf(schema).includes('null') && schema.type !== 'boolean'
  return {
    start: 'default' in schema ? schema.default : blank(schema),
    ...(filled && { required: true }),
    ...('minimum' in schema && { min: schema.minimum }),
    ...('maximum' in schema && { max: schema.maximum }),
    ...(schema.enum && { options: schema.enum.filter((one) => one !== null) }),
  }
}

const kinds = {}
for (const operations of Object.values(paths)) {
  for (const { operationId = '', requestBody } of Object.values(operations)) {
    const [, kind, verb] = operationId.match(/^(.*)\.(create|update)$/) ?? []
    const ref = requestBody?.content?.['application/json']?.schema?.$ref
    if (!kind || !ref || (verb === 'update' && kinds[kind])) continue
    const { properties, required = [] } = components.schemas[ref.split('/').at(-1)]
    kinds[kind] = Object.fromEntries(
      Object.entries(properties).map(([name, schema]) => [name, field(schema, required.includes(name))]),
    )
  }
}

const lines = Object.entries(kinds)
  .sort(([a], [b]) => (a < b ? -1 : 1))
  .map(([kind, fields]) => `  ${JSON.stringify(kind)}: ${JSON.stringify(fields)},\n`)
const text = `// Written by scripts/generate.mjs.
export interface ApiField {
  /** What a form for a new row begins with. */
  start: unknown
  required?: boolean
  min?: number
  max?: number
  options?: readonly string[]
}

export const apiFields: Record<string, Record<string, ApiField>> = {
${lines.join('')}}
`
const file = here('src/api/fields.ts')
if (check && text !== readFileSync(file, 'utf8')) {
  console.error('src/api/fields.ts is stale: npm run generate')
  process.exit(1)
}
if (!check) writeFileSync(file, text)
