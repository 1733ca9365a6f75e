import { answer, http, type Intent, intentHeaders, raw, unwrap } from '../../api/client'
import { mediaOf } from './plan'

export type Source = 'haproxy' | 'opnsense'

/** Sends a text unchanged. */
const sent = (text: string, type: string, intent?: Intent) => ({
  body: text as never,
  bodySerializer: (body: unknown) => body as string,
  headers: { 'Content-Type': type, ...intentHeaders(intent) },
})

/** The download link of the document. */
export function exportLink(kinds: readonly string[], secrets: boolean): string {
  const query = new URLSearchParams({ secrets: secrets ? 'sealed' : 'omit' })
  if (kinds.length > 0) query.set('kinds', kinds.join(','))
  return `/api/v1/configuration?${query}`
}

/** Fetches the document as text. */
export const exported = (kinds: readonly string[], secrets: boolean) =>
  raw(
    http.GET('/configuration', {
      params: { query: { kinds: kinds.join(',') || undefined, secrets: secrets ? 'sealed' : 'omit' } },
      parseAs: 'text',
    }),
  )

/** Previews what a document would change. */
export const planned = (text: string, prune: boolean) =>
  unwrap(
    http.POST('/configuration/plan', {
      params: { query: { prune } },
      ...sent(text, mediaOf(text)),
    }),
  )

/** Applies a document, unless the configuration has changed since the preview. */
export const applied = (text: string, prune: boolean, basis: string | null, intent: Intent) =>
  answer(
    http.POST('/configuration/apply', {
      params: { query: { prune, basis: basis ?? undefined } },
      ...sent(text, mediaOf(text), intent),
    }),
  )

/** Converts another program's configuration to a document. */
export const converted = (from: Source, text: string, interfaces: string) =>
  unwrap(
    http.POST('/configuration/import', {
      params: { query: { from, interfaces: interfaces || undefined } },
      ...sent(text, 'text/plain'),
    }),
  )
