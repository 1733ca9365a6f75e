/** Where to go after the login: a page of this console, never another site. */
export function safeNext(search: string): string {
  const next = new URLSearchParams(search).get('next') ?? '/'
  return /^\/(?![/\\])/.test(next) ? next : '/'
}

const storageKey = 'gateway.next'

/** A single sign-on comes back to the front page; what was asked for waits here meanwhile. */
export function rememberNext(search: string) {
  sessionStorage.setItem(storageKey, search)
}

/** What was asked for before a single sign-on; answered once, and only to who comes back from it. */
export function takeNext(): string {
  const search = sessionStorage.getItem(storageKey) ?? ''
  sessionStorage.removeItem(storageKey)
  return safeNext(search)
}
