import { beforeEach, describe, expect, it, vi } from 'vitest'
import { answer, http, ifMatch, intentHeaders, onFault, onUnconfirmed, parseApplied, raw, unwrap } from './client'
import { Fault } from './fault'
import { resource } from './resource'

const seen: Request[] = []

function reply(status: number, body: unknown, headers: Record<string, string> = {}) {
  vi.stubGlobal('fetch', async (request: Request) => {
    seen.push(request)
    const response = new Response(JSON.stringify(body), {
      status,
      headers: { 'Content-Type': 'application/json', ...headers },
    })
    Object.defineProperty(response, 'url', { value: request.url })
    return response
  })
}

async function faultOf(call: Promise<unknown>): Promise<Fault> {
  const cause = await call.catch((error) => error)
  expect(cause).toBeInstanceOf(Fault)
  return cause as Fault
}

beforeEach(() => {
  seen.length = 0
  onFault(() => false)
})

describe('the envelope', () => {
  it('returns the data, the ETag and what was applied', async () => {
    reply(
      200,
      { data: { stratum: 3 }, error: null },
      { ETag: '"a1"', 'Gateway-Apply': 'ntp=live, packet-filter=degraded' },
    )
    expect(await answer(http.GET('/ntp/status'))).toEqual({
      value: { stratum: 3 },
      etag: '"a1"',
      applied: [
        { component: 'ntp', state: 'live' },
        { component: 'packet-filter', state: 'degraded' },
      ],
    })
  })

  it('reports a change that must be confirmed', async () => {
    const told = vi.fn()
    onUnconfirmed(told)
    reply(200, { data: {}, error: null }, { 'Gateway-Change-Set': 'set-1' })
    await answer(http.GET('/ntp/status'))
    expect(told).not.toHaveBeenCalled()
    reply(
      200,
      { data: {}, error: null },
      { 'Gateway-Change-Set': 'set-1', 'Gateway-Confirm-By': '2026-03-01T12:00:00Z' },
    )
    await answer(http.GET('/ntp/status'))
    expect(told).toHaveBeenCalledWith({ id: 'set-1', by: '2026-03-01T12:00:00Z' })
    onUnconfirmed(() => {})
  })

  it('turns an error into a fault with its fields, request id and retry time', async () => {
    const error = { code: 'validation_failed', message: 'No.', fields: { address: 'Not a host.' }, details: { a: 1 } }
    reply(400, { data: null, error }, { 'X-Request-ID': 'r-1', 'Retry-After': '30' })
    const fault = await faultOf(unwrap(http.GET('/ntp/status')))
    expect(fault).toMatchObject({ ...error, status: 400, requestId: 'r-1', retryAfter: 30, sessionLost: false })
  })

  it('says that the gateway is unreachable if nothing answers', async () => {
    vi.stubGlobal('fetch', async () => {
      throw new TypeError('Failed to fetch')
    })
    expect(await faultOf(unwrap(http.GET('/ntp/status')))).toMatchObject({ code: 'unreachable', status: 0 })
  })

  it('has a timeout, and does not claim that a change was not stored', async () => {
    const limits: number[] = []
    vi.spyOn(AbortSignal, 'timeout').mockImplementation((limit) => {
      limits.push(limit)
      return AbortSignal.abort()
    })
    vi.stubGlobal('fetch', (_: Request, { signal }: RequestInit) =>
      signal?.aborted ? Promise.reject(signal.reason) : new Promise(() => {}),
    )
    const read = await faultOf(unwrap(http.GET('/ntp/status')))
    expect(read).toMatchObject({ code: 'timeout', status: 0, message: 'The gateway has not answered for 10 s.' })
    const change = await faultOf(unwrap(http.POST('/auth/logout')))
    expect(change.message).toContain('It may still make the change')
    expect(limits).toEqual([10_000, 60_000])
  })

  it('handles an answer without an envelope', async () => {
    reply(502, 'Bad gateway')
    expect(await faultOf(unwrap(http.GET('/ntp/status')))).toMatchObject({ code: 'unexpected', status: 502 })
  })
})

it('is not expected around text, and errors are reported without one as well', async () => {
  const config = () => raw(http.GET('/peers/{id}/config', { params: { path: { id: '1' } }, parseAs: 'text' }))
  vi.stubGlobal('fetch', async () => new Response('[Interface]'))
  expect(await config()).toBe('[Interface]')
  const error = { code: 'conflict', message: 'The private key is not known.' }
  reply(409, { data: null, error })
  expect(await faultOf(config())).toMatchObject({ ...error, status: 409 })
})

describe('a lost session', () => {
  const error = { code: 'unauthenticated', message: 'Log in.' }

  it('is reported once, so that the app can redirect to the login', async () => {
    const faults: Fault[] = []
    onFault((fault) => faults.push(fault) === 0)
    reply(401, { data: null, error })
    await faultOf(unwrap(http.GET('/auth/me')))
    expect(faults).toHaveLength(1)
    expect(faults[0]?.sessionLost).toBe(true)
  })

  it('never settles a call while the page is being left', async () => {
    onFault(() => true)
    reply(401, { data: null, error })
    const settled = vi.fn()
    unwrap(http.GET('/auth/me')).then(settled, settled)
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(settled).not.toHaveBeenCalled()
  })

  it('is not a wrong password', async () => {
    reply(401, { data: null, error })
    const body = { current_password: 'a', new_password: 'b' }
    expect((await faultOf(unwrap(http.POST('/auth/change-password', { body })))).sessionLost).toBe(false)
    reply(401, { data: null, error })
    const disable = http.POST('/auth/totp/disable', { body: { password: 'x' } })
    expect((await faultOf(unwrap(disable))).sessionLost).toBe(false)
  })
})

describe('lost updates', () => {
  const pools = resource('ntp.pool', '/ntp/pools')

  it('are prevented by sending back the ETag', async () => {
    reply(200, { data: { id: '1' }, error: null }, { ETag: '"v1"' })
    const { etag } = await pools.read('1')
    await pools.update('1', { prefer: true }, etag)
    expect(seen[1]?.method).toBe('PUT')
    expect(seen[1]?.url).toMatch(/\/api\/v1\/ntp\/pools\/1$/)
    expect(seen[1]?.headers.get('If-Match')).toBe('"v1"')
  })

  it('are reported as stale', async () => {
    reply(412, { data: null, error: { code: 'stale', message: 'Changed.' } })
    expect(await faultOf(pools.update('1', {}, '"v1"'))).toMatchObject({ code: 'stale', status: 412 })
  })

  it('cannot be detected without an ETag: no header is sent', () => {
    expect(ifMatch(null)).toEqual({})
  })
})

it('handles a missing or odd Gateway-Apply header', () => {
  expect(parseApplied(null)).toEqual([])
  expect(parseApplied('nonsense, ntp=pending')).toEqual([{ component: 'ntp', state: 'pending' }])
})

it('percent-encodes the reason for its header', () => {
  expect(intentHeaders({ reason: 'größer', within: 30 })).toEqual({
    'Gateway-Reason': 'gr%C3%B6%C3%9Fer',
    'Gateway-Confirm-Within': '30',
  })
  expect(intentHeaders({ reason: '', within: 0 })).toEqual({})
  expect(intentHeaders()).toEqual({})
})
