import type { components } from './schema'

/** A row of any kind, as something else names it. */
export type Thing = components['schemas']['ResourceUser']

/** What the API answers instead of data: a stable code, a sentence, and complaints per field. */
export interface FaultInfo {
  code: string
  message: string
  status: number
  fields?: Record<string, string>
  details?: Record<string, unknown>
  requestId?: string | null
  retryAfter?: number | null
  sessionLost?: boolean
}

export class Fault extends Error {
  readonly code: string
  readonly status: number
  readonly fields: Record<string, string>
  readonly details: Record<string, unknown>
  readonly requestId: string | null
  readonly retryAfter: number | null
  /** The session is gone; false when a 401 says that a typed password was wrong. */
  readonly sessionLost: boolean

  constructor(info: FaultInfo) {
    super(info.message)
    this.name = 'Fault'
    this.code = info.code
    this.status = info.status
    this.fields = info.fields ?? {}
    this.details = info.details ?? {}
    this.requestId = info.requestId ?? null
    this.retryAfter = info.retryAfter ?? null
    this.sessionLost = info.sessionLost ?? false
  }

  /** What still uses a resource that could not be deleted. */
  get usedBy(): Thing[] {
    const used = this.details.used_by
    return Array.isArray(used) ? (used as Thing[]) : []
  }
}

/** Everything thrown becomes a Fault, so that one place decides how to show it. */
export function toFault(cause: unknown): Fault {
  if (cause instanceof Fault) return cause
  const message = cause instanceof Error ? cause.message : String(cause)
  return new Fault({ code: 'unexpected', message, status: 0 })
}
