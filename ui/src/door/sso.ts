/** The gateway's reasons for a failed single sign-on. */
export const ssoErrors = [
  'sso_disabled',
  'state_mismatch',
  'nonce_mismatch',
  'denied',
  'provider_unavailable',
  'email_unverified',
  'no_account',
  'account_disabled',
  'subject_mismatch',
  'failed',
] as const

/** The text key for the error in the address bar. Unknown reasons count as a general failure. */
export function ssoErrorText(search: string): string | null {
  const code = new URLSearchParams(search).get('sso_error')
  if (!code) return null
  return `sso.errors.${ssoErrors.find((known) => known === code) ?? 'failed'}`
}
