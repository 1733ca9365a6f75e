// The letters of recovery codes: none that is easily taken for another.
const recovery = /^[a-km-np-z2-9]{16}$/

/** What was typed where a code is due: the digits of the app or a recovery code, however it was spaced. */
export function readCode(typed: string, recoveryToo = true): string | null {
  const bare = typed.replace(/[\s-]/g, '').toLowerCase()
  if (/^\d{6}$/.test(bare)) return bare
  return recoveryToo && recovery.test(bare) ? (bare.match(/.{4}/g) as string[]).join('-') : null
}
