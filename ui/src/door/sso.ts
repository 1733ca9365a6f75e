/** Why a single sign-on may fail, in the words of the gateway. */
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

/** The text for what the address says; a reason that nobody knows is a failure all the same. */
export function ssoErrorText(search: string): string | null {
  const code = new URLSearchParams(search).get('sso_error')
  if (!code) return null
  return `sso.errors.${ssoErrors.find((known) => known === code) ?? 'failed'}`
}
