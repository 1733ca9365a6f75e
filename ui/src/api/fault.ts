import type { components } from './schema'

/** A reference to a row of any kind. */
export type Thing = components['schemas']['ResourceUser']

/** The API's error: a stable code, a sentence, and messages per field. */
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
  /** The session is gone. False if a 401 means that a password was wrong. */
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

/** Turns anything thrown into a Fault, so that one place decides how to show it. */
export function toFault(cause: unknown): Fault {
  if (cause instanceof Fault) return cause
  const message = cause instanceof Error ? cause.message : String(cause)
  return new Fault({ code: 'unexpected', message, status: 0 })
}
