/** Where to go after the login: a page of this console, never another site. */
export function safeNext(search: string): string {
  const next = new URLSearchParams(search).get('next') ?? '/'
  return /^\/(?![/\\])/.test(next) ? next : '/'
}
