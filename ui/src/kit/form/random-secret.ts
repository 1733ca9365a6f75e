// None that is easily taken for another, and none that a device might not let one type. 32 letters: five bits each.
const letters = 'abcdefghijkmnpqrstuvwxyz23456789'

/** A secret of 160 bits, to be typed or pasted into a device. */
export function randomSecret(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(32)), (byte) => letters[byte % letters.length]).join('')
}
