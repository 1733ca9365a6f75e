import createClient from 'openapi-fetch'
import i18n from '../i18n/i18n'
import { Fault } from './fault'
import type { paths } from './schema'

export type ComponentState = 'live' | 'pending' | 'degraded' | 'not_installed'

/** An item of the Gateway-Apply header: how far a stored change has been applied to a component. */
export interface Applied {
  component: string
  state: ComponentState
}

export interface Answer<T> {
  value: T
  etag: string | null
  applied: Applied[]
}

/** The reason for a change, and within how many seconds it must be confirmed; 0 means never. */
export interface Intent {
  reason: string
  within: number
}

/** A change that is reverted unless confirmed in time. */
export interface Unconfirmed {
  id: string
  by: string
}

/** Request timeouts in seconds. A change waits for the daemons that it concerns, so it gets longer. */
const patience = { read: 10, change: 60, backup: 2 * 3600 }
/** Requests whose duration grows with the database. */
const unhurried =
  /\/backups(\/upload|\/[^/]+\/(verify|restore|restore-plan))?$|\/backup-remotes\/[^/]+\/fetch$|\/configuration\/(plan|apply)(\?.*)?$|\/setup\/(restore\/(upload|fetch|plan|begin)|join-cluster)$/
const patienceFor = ({ method, url }: Request) =>
  method === 'GET' ? patience.read : unhurried.test(url) ? patience.backup : patience.change

// Looks fetch up at each call, so that tests can replace it.
export const http = createClient<paths>({
  baseUrl: `${location.origin}/api/v1`,
  credentials: 'same-origin',
  fetch: async (request) => {
    const seconds = patienceFor(request)
    const timeout = AbortSignal.timeout(seconds * 1000)
    try {
      return await globalThis.fetch(request, { signal: AbortSignal.any([request.signal, timeout]) })
    } catch (cause) {
      throw timeout.aborted ? timedOut(request, seconds) : cause
    }
  },
})

/** A timeout does not tell whether a change was stored. */
const timedOut = ({ method }: Request, seconds: number) =>
  new Fault({
    code: 'timeout',
    message: i18n.t(method === 'GET' ? 'timedOut' : 'timedOutChange', { seconds }),
    status: 0,
  })

/** Returns whether the page is being left because of this fault. */
type FaultListener = (fault: Fault) => boolean
let leaving: FaultListener = () => false

/** The app decides what to do about a lost session or a missing setup, because it owns navigation. */
export function onFault(listener: FaultListener) {
  leaving = listener
}

let waits: (change: Unconfirmed) => void = () => {}

/** The listener is called with every change from this page that must be confirmed. */
export function onUnconfirmed(listener: typeof waits) {
  waits = listener
}

/** A call of the generated client: returns the data on success, or an envelope with an error. */
type RawCall<B> = Promise<{ data?: B; error?: unknown; response: Response }>
type Call<T> = RawCall<{ data?: T }>

async function settle<B>(call: RawCall<B>): Promise<{ body: B; response: Response }> {
  let result: Awaited<RawCall<B>>
  try {
    result = await call
  } catch (cause) {
    if (cause instanceof Fault) return fail(cause)
    return fail(new Fault({ code: 'unreachable', message: i18n.t('unreachable'), status: 0 }))
  }
  const { data, error, response } = result
  return response.ok && data !== undefined ? { body: data, response } : fail(faultOf(error, response))
}

export async function answer<T>(call: Call<T>): Promise<Answer<NonNullable<T>>> {
  const { body, response } = await settle(call)
  const { headers } = response
  const [id, by] = [headers.get('Gateway-Change-Set'), headers.get('Gateway-Confirm-By')]
  if (id && by) waits({ id, by })
  return {
    value: body.data as NonNullable<T>,
    etag: headers.get('ETag'),
    applied: parseApplied(headers.get('Gateway-Apply')),
  }
}

/** Returns an answer that has no envelope, such as text or a picture. */
export async function raw<B>(call: RawCall<B>): Promise<B> {
  return (await settle(call)).body
}

/**
 * Downloads a file that is produced while it is sent. Passes on each piece as it arrives. There is no timeout: the
 * caller may abort it.
 */
export async function download(
  path: string,
  body: object,
  signal: AbortSignal,
  take: (piece: Uint8Array<ArrayBuffer>) => void,
): Promise<void> {
  const call = globalThis
    .fetch(`/api/v1${path}`, {
      method: 'POST',
      credentials: 'same-origin',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
      signal,
    })
    .then(async (response) =>
      response.ok ? { data: response.body, response } : { error: await response.json(), response },
    )
  const { body: stream } = await settle(call)
  const reader = stream?.getReader()
  for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) take(next.value)
}

export async function unwrap<T>(call: Call<T>): Promise<NonNullable<T>> {
  return (await answer(call)).value
}

export function ifMatch(etag: string | null | undefined): Record<string, string> {
  return etag ? { 'If-Match': etag } : {}
}

/** A header allows only ASCII, so the reason is percent-encoded. */
export function intentHeaders(intent?: Partial<Intent>): Record<string, string> {
  const { reason = '', within = 0 } = intent ?? {}
  return {
    ...(reason && { 'Gateway-Reason': encodeURIComponent(reason) }),
    ...(within > 0 && { 'Gateway-Confirm-Within': String(within) }),
  }
}

export function parseApplied(header: string | null): Applied[] {
  return (header ?? '')
    .split(',')
    .map((part) => part.trim().split('='))
    .filter((pair): pair is [string, ComponentState] => pair.length === 2)
    .map(([component, state]) => ({ component, state }))
}

function fail(fault: Fault): Promise<never> {
  // The page is about to be left, so never settle: the caller must not show an error.
  return leaving(fault) ? new Promise(() => {}) : Promise.reject(fault)
}

const asksForCredentials = /\/auth\/(login|change-password|reset-password|totp\/disable)/

function faultOf(body: unknown, response: Response): Fault {
  const error = (body as { error?: Partial<Fault> } | undefined)?.error
  return new Fault({
    code: error?.code ?? 'unexpected',
    message: error?.message ?? i18n.t('answered', { status: response.status }),
    status: response.status,
    fields: error?.fields,
    details: error?.details,
    requestId: response.headers.get('X-Request-ID'),
    retryAfter: Number(response.headers.get('Retry-After')) || null,
    sessionLost: response.status === 401 && !asksForCredentials.test(response.url),
  })
}
