/** Where to go after the login: always a page of this console, never another site. */
export function safeNext(search: string): string {
  const next = new URLSearchParams(search).get('next') ?? '/'
  return /^\/(?![/\\])/.test(next) ? next : '/'
}

const storageKey = 'gateway.next'

/** Single sign-on returns to the front page, so remember the requested page. */
export function rememberNext(search: string) {
  sessionStorage.setItem(storageKey, search)
}

/** The page requested before a single sign-on. Returned only once. */
export function takeNext(): string {
  const search = sessionStorage.getItem(storageKey) ?? ''
  sessionStorage.removeItem(storageKey)
  return safeNext(search)
}
