import { answer, http, type Intent, intentHeaders } from '../../api/client'
import type { RevertOptions } from '../../api/types'

/** The options already contain the reason. */
const headers = (intent?: Intent) => intentHeaders({ within: intent?.within })

/** Reverts a change set, or previews that. */
export const revertSet = (id: string, options: RevertOptions, intent?: Intent) =>
  answer(http.POST('/change-sets/{id}/revert', { params: { path: { id } }, body: options, headers: headers(intent) }))

/** Reverts the configuration, some kinds or one row to a point in time, or previews that. */
export const revertTo = (to: { at: string; kinds: string[]; id?: string }, options: RevertOptions, intent?: Intent) =>
  answer(http.POST('/configuration/revert', { body: { ...options, ...to }, headers: headers(intent) }))
