// The alphabet of recovery codes has no letters that look alike.
const recovery = /^[a-km-np-z2-9]{16}$/

/** Parses a typed code: the app's digits or a recovery code, with any spacing. */
export function readCode(typed: string, recoveryToo = true): string | null {
  const bare = typed.replace(/[\s-]/g, '').toLowerCase()
  if (/^\d{6}$/.test(bare)) return bare
  return recoveryToo && recovery.test(bare) ? (bare.match(/.{4}/g) as string[]).join('-') : null
}
