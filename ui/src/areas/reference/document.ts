// The parts of an OpenAPI document that the gateway's document uses.

export interface Schema {
  $ref?: string
  type?: string | string[]
  format?: string
  description?: string
  enum?: unknown[]
  default?: unknown
  examples?: unknown[]
  minimum?: number
  maximum?: number
  maxLength?: number
  items?: Schema
  properties?: Record<string, Schema>
  additionalProperties?: boolean | Schema
  required?: string[]
  readOnly?: boolean
  writeOnly?: boolean
}

interface Content {
  content?: Record<string, { schema?: Schema }>
}
interface Response extends Content {
  $ref?: string
  description?: string
}

export interface Parameter {
  name: string
  in: 'path' | 'query' | 'header'
  required?: boolean
  description?: string
  schema?: Schema
}

interface RawOperation {
  operationId: string
  summary: string
  tags: string[]
  parameters?: Parameter[]
  requestBody?: Content & { required?: boolean }
  responses: Record<string, Response>
  'x-policy': string
  'x-audit'?: string
  'x-feeds'?: string[]
  'x-websocket'?: boolean
}

export interface Document {
  info: { version: string }
  paths: Record<string, Record<string, RawOperation>>
  components: { schemas: Record<string, Schema>; responses: Record<string, Response> }
}

export interface ApiCall {
  id: string
  method: string
  path: string
  tag: string
  summary: string
  policy: string
  audit: string
  feeds: string[]
  stream: boolean
  /** The answer is not JSON but a file or a redirect. */
  file: boolean
  parameters: Parameter[]
  /** The JSON body, and whether it is required; null if there is none or it is a file. */
  body: { schema: Schema; required: boolean } | null
  /** The MIME types of a body that is not JSON. */
  uploads: string[]
  answers: { status: string; description: string; data: Schema | null }[]
}

const last = (ref: string) => ref.slice(ref.lastIndexOf('/') + 1)

/** Every call, sorted by tag and path. */
export function callsOf(document: Document): ApiCall[] {
  const calls = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, raw]) => callOf(document, path, method.toUpperCase(), raw)),
  )
  const order = (call: ApiCall) => `${call.tag}\n${call.path}`
  return calls.sort((a, b) => (order(a) < order(b) ? -1 : order(a) > order(b) ? 1 : 0))
}

function callOf(document: Document, path: string, method: string, raw: RawOperation): ApiCall {
  const types = raw.requestBody?.content ?? {}
  const json = types['application/json']?.schema
  return {
    id: raw.operationId,
    method,
    path,
    tag: raw.tags[0] ?? '',
    summary: raw.summary,
    policy: raw['x-policy'],
    audit: raw['x-audit'] ?? '',
    feeds: raw['x-feeds'] ?? [],
    stream: raw['x-websocket'] ?? false,
    file: !Object.entries(raw.responses).some(
      ([status, { content }]) => /^2/.test(status) && content?.['application/json'],
    ),
    parameters: raw.parameters ?? [],
    body: json ? { schema: json, required: raw.requestBody?.required ?? false } : null,
    uploads: json ? [] : Object.keys(types),
    answers: Object.entries(raw.responses).map(([status, response]) => {
      const whole = response.$ref ? (document.components.responses[last(response.$ref)] ?? {}) : response
      const schema = whole.content?.['application/json']?.schema
      // A successful answer is in an envelope; show its data.
      const data = (/^2/.test(status) && (schema?.properties?.data ?? schema)) || null
      return { status, description: whole.description ?? '', data }
    }),
  }
}

export const resolved = (document: Document, schema: Schema): Schema =>
  schema.$ref ? (document.components.schemas[last(schema.$ref)] ?? {}) : schema

const typesOf = ({ type }: Schema) => [type ?? []].flat()

/** A type in short: string, date-time, NtpPool[], number or null. */
export function typeText(document: Document, schema: Schema): string {
  if (schema.$ref) return last(schema.$ref)
  const types = typesOf(schema).map((type) =>
    type === 'array'
      ? `${typeText(document, schema.items ?? {})}[]`
      : type === 'string' && schema.format
        ? schema.format
        : type,
  )
  return types.join(' or ') || 'any'
}

/** The constraints on a value beyond its type. */
export function limitsOf({ enum: options, minimum, maximum, maxLength }: Schema): string {
  const range = [minimum, maximum].map((bound) => bound ?? '')
  return [
    options ? options.map((one) => JSON.stringify(one)).join(', ') : '',
    range.some((bound) => bound !== '') ? range.join('…') : '',
    maxLength ? `≤ ${maxLength}` : '',
  ]
    .filter(Boolean)
    .join('; ')
}

export interface FieldRow {
  /** The path of the field, such as servers[].address. */
  path: string
  depth: number
  type: string
  limits: string
  required: boolean
  description: string
}

const deepest = 4

/** The fields of a schema as a flat list. A recursive schema is expanded once. */
export function fieldsOf(
  document: Document,
  schema: Schema,
  input: boolean,
  path = '',
  depth = 0,
  above: readonly string[] = [],
): FieldRow[] {
  const inside = schema.items && typesOf(schema).includes('array') ? schema.items : schema
  if (inside !== schema) return fieldsOf(document, inside, input, `${path}[]`, depth, above)
  if (schema.$ref && above.includes(schema.$ref)) return []
  const seen = schema.$ref ? [...above, schema.$ref] : above
  const { properties = {}, required = [], additionalProperties } = resolved(document, schema)
  if (depth > deepest) return []
  const rows = Object.entries(properties)
    .filter(([, property]) => !(input && property.readOnly))
    .flatMap(([name, property]) => {
      const at = path ? `${path}.${name}` : name
      const row: FieldRow = {
        path: at,
        depth,
        type: typeText(document, property),
        limits: limitsOf(property),
        required: required.includes(name),
        description: property.description ?? '',
      }
      return [row, ...fieldsOf(document, property, input, at, depth + 1, seen)]
    })
  const more = typeof additionalProperties === 'object' ? additionalProperties : null
  return more ? [...rows, ...fieldsOf(document, more, input, path ? `${path}.*` : '*', depth, seen)] : rows
}

/** An example value for a schema. With `only` it has just the required fields. */
export function exampleOf(document: Document, schema: Schema, only = false, above: readonly string[] = []): unknown {
  if (schema.$ref && above.includes(schema.$ref)) return null
  const seen = schema.$ref ? [...above, schema.$ref] : above
  const whole = resolved(document, schema)
  if (whole.examples?.length) return whole.examples[0]
  if (whole.default !== undefined) return whole.default
  if (whole.enum?.length) return whole.enum.find(Boolean) ?? whole.enum[0]
  const types = typesOf(whole)
  if (types.includes('null')) return null
  switch (types[0]) {
    case 'object':
      return Object.fromEntries(
        Object.entries(whole.properties ?? {})
          .filter(([name, { readOnly }]) => !readOnly && (!only || whole.required?.includes(name)))
          .map(([name, property]) => [name, exampleOf(document, property, only, seen)]),
      )
    case 'array':
      return only ? [] : [exampleOf(document, whole.items ?? {}, only, seen)]
    case 'integer':
    case 'number':
      return whole.minimum ?? 0
    case 'boolean':
      return false
    case 'string':
      return textExample(whole.format)
  }
  return null
}

const formats: Record<string, string> = {
  uuid: '00000000-0000-0000-0000-000000000000',
  'date-time': '2026-01-31T12:00:00Z',
}
const textExample = (format = '') => formats[format] ?? ''

/** The URL of a call with its parameters; null while a path parameter is missing. */
export function addressOf({ path, parameters }: ApiCall, values: Record<string, string>): string | null {
  let missing = false
  const filled = path.replace(/\{([^}]+)\}/g, (_, name: string) => {
    missing ||= !values[name]
    return encodeURIComponent(values[name] ?? '')
  })
  if (missing) return null
  const query = new URLSearchParams(
    parameters.filter((p) => p.in === 'query' && values[p.name]).map(({ name }) => [name, values[name] as string]),
  ).toString()
  return `/api/v1${filled}${query && `?${query}`}`
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

/** The same call as a shell command, with the user's own token. */
export function curlOf(call: ApiCall, address: string, body: string, origin: string): string {
  return [
    `curl ${call.method === 'GET' ? '' : `-X ${call.method} `}${quoted(origin + address)}`,
    '-H "Authorization: Bearer $TOKEN"',
    ...(body ? ["-H 'Content-Type: application/json'", `-d ${quoted(body)}`] : []),
  ].join(' \\\n  ')
}
