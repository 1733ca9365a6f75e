// Without letters that look alike or that a device may not offer. 32 letters make five bits each.
const letters = 'abcdefghijkmnpqrstuvwxyz23456789'

/** A secret of 160 bits, to type or paste into a device. */
export function randomSecret(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(32)), (byte) => letters[byte % letters.length]).join('')
}
