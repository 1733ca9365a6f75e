import { randomBytes, randomUUID } from 'node:crypto'
import { clear, make, onGateway } from './gateway'

/** A time-ordered id, as the agent makes them. */
function idAt(time: number): string {
  const hex = time.toString(16).padStart(12, '0') + randomBytes(10).toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), `7${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    '-',
  )
}

interface Rule {
  rule_id: number
  message: string
  severity?: string
  deciding?: boolean
  data?: { variable: string; key: string; value: string; masked: boolean }[]
}

interface Found {
  domain: { id: string; name: string }
  client: string
  uri: string
  method?: string
  action?: 'blocked' | 'detected' | 'unavailable'
  score?: number
  /** How many hours ago. */
  ago?: number
  rules: Rule[]
  headers?: [string, string][]
  body?: string
}

/** Writes the agent's records of one request, announces them as the agent does, and returns the reference number. */
export function found({ domain, client, uri, rules, ...more }: Found): string {
  const { method = 'GET', action = 'blocked', score = 10, ago = 0, headers, body = '' } = more
  const at = Date.now() - ago * 3_600_000
  const created_at = new Date(at).toISOString()
  const request_id = randomUUID()
  const alerts = rules.map((rule, index) => ({
    id: idAt(at + index),
    created_at,
    request_id,
    domain_id: domain.id,
    domain: domain.name,
    severity: 'critical',
    action,
    method,
    uri,
    client_ip: client,
    score,
    paranoia: 1,
    tags: ['attack-generic'],
    data: [],
    partial: false,
    deciding: false,
    ...rule,
  }))
  const kept = {
    request_id,
    created_at,
    domain_id: domain.id,
    method,
    uri,
    version: 'HTTP/1.1',
    headers: [['Host', domain.name], ...(headers ?? [])].map(([name, value]) => ({ name, value })),
    body: `\\x${Buffer.from(body).toString('hex')}`,
    body_truncated: false,
    masked: headers?.some(([, value]) => value.includes('[masked]')) ?? false,
  }
  const rows = (table: string, list: object[]) =>
    `INSERT INTO ${table} SELECT * FROM jsonb_populate_recordset(NULL::${table}, $rows$${JSON.stringify(list)}$rows$);`
  const ids = alerts.map(({ id }) => id).join(',')
  const sql = [rows('waf_alerts', alerts), rows('waf_requests', [kept]), `SELECT pg_notify('waf_alerts', '${ids}')`]
  onGateway('psql', '-qv', 'ON_ERROR_STOP=1', '-h', '/run/postgresql', '-U', 'gateway', '-c', sql.join('\n'), 'gateway')
  return request_id
}

/** A search for SQL in documentation, which the rules mistake for an attack. */
export const search = (domain: Found['domain'], client: string, more: Partial<Found> = {}) =>
  found({
    domain,
    client,
    uri: "/search?q=1'%20OR%20'1'='1'%20--%20",
    rules: [
      {
        rule_id: 942100,
        message: 'SQL Injection Attack Detected via libinjection',
        data: [{ variable: 'ARGS', key: 'q', value: "1' OR '1'='1' -- ", masked: false }],
      },
      { rule_id: 949110, message: 'Inbound Anomaly Score Exceeded (Total Score: 10)', deciding: true },
    ],
    headers: [
      ['User-Agent', 'Mozilla/5.0'],
      ['Accept', '*/*'],
      ['Cookie', 'session=[masked]'],
    ],
    ...more,
  })

/** Creates a domain for the WAF. Deletes an existing one of the same name first. */
export async function makeDomain(name: string): Promise<Found['domain']> {
  for (const path of ['/domains', '/backends']) await clear(path, name)
  const { id: backend_id } = await make('/backends', { name })
  await make('/backend-servers', { backend_id, name: 'one', address: '10.10.0.2', port: 8080 })
  const { id } = await make('/domains', { name, backend_id })
  return { name, id }
}
