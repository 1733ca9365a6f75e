import { answer, http, type Intent, intentHeaders } from '../../api/client'
import type { RevertOptions } from '../../api/types'

/** The reason goes with the options. */
const headers = (intent?: Intent) => intentHeaders({ within: intent?.within })

/** Takes a change set back, or previews that. */
export const revertSet = (id: string, options: RevertOptions, intent?: Intent) =>
  answer(http.POST('/change-sets/{id}/revert', { params: { path: { id } }, body: options, headers: headers(intent) }))

/** Brings the configuration, some kinds, or one row back to a time, or previews that. */
export const revertTo = (to: { at: string; kinds: string[]; id?: string }, options: RevertOptions, intent?: Intent) =>
  answer(http.POST('/configuration/revert', { body: { ...options, ...to }, headers: headers(intent) }))
