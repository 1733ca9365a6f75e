import { answer, http, type Intent, intentHeaders, raw, unwrap } from '../../api/client'
import { mediaOf } from './plan'

export type Source = 'haproxy' | 'opnsense'

/** A text that is sent as it is. */
const sent = (text: string, type: string, intent?: Intent) => ({
  body: text as never,
  bodySerializer: (body: unknown) => body as string,
  headers: { 'Content-Type': type, ...intentHeaders(intent) },
})

/** Where the document is downloaded. */
export function exportLink(kinds: readonly string[], secrets: boolean): string {
  const query = new URLSearchParams({ secrets: secrets ? 'sealed' : 'omit' })
  if (kinds.length > 0) query.set('kinds', kinds.join(','))
  return `/api/v1/configuration?${query}`
}

/** The document as text. */
export const exported = (kinds: readonly string[], secrets: boolean) =>
  raw(
    http.GET('/configuration', {
      params: { query: { kinds: kinds.join(',') || undefined, secrets: secrets ? 'sealed' : 'omit' } },
      parseAs: 'text',
    }),
  )

/** What a document would change. */
export const planned = (text: string, prune: boolean) =>
  unwrap(
    http.POST('/configuration/plan', {
      params: { query: { prune } },
      ...sent(text, mediaOf(text)),
    }),
  )

/** Makes the configuration what a document says, unless it has changed since the plan. */
export const applied = (text: string, prune: boolean, basis: string | null, intent: Intent) =>
  answer(
    http.POST('/configuration/apply', {
      params: { query: { prune, basis: basis ?? undefined } },
      ...sent(text, mediaOf(text), intent),
    }),
  )

/** A document made of another program's configuration. */
export const converted = (from: Source, text: string, interfaces: string) =>
  unwrap(
    http.POST('/configuration/import', {
      params: { query: { from, interfaces: interfaces || undefined } },
      ...sent(text, 'text/plain'),
    }),
  )
