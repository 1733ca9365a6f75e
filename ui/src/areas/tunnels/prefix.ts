/** A network of either family: its first address as a number, and its prefix length. */
export interface Prefix {
  width: 32 | 128
  first: bigint
  bits: number
}

const join = (parts: readonly number[], step: bigint) => parts.reduce((sum, part) => (sum << step) + BigInt(part), 0n)

function parseAddress(text: string): Pick<Prefix, 'width' | 'first'> | null {
  const v4 = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text)
  if (v4) {
    const parts = v4.slice(1).map(Number)
    return parts.some((part) => part > 255) ? null : { width: 32, first: join(parts, 8n) }
  }
  if (!URL.canParse(`http://[${text}]`)) return null
  // The browser parses every notation of an address, and returns the shortest.
  const [head = '', tail = ''] = new URL(`http://[${text}]`).hostname.slice(1, -1).split('::')
  const groups = (part: string) => part.split(':').filter(Boolean)
  const missing = 8 - groups(head).length - groups(tail).length
  const all = [...groups(head), ...Array<string>(missing).fill('0'), ...groups(tail)]
  return {
    width: 128,
    first: join(
      all.map((group) => Number.parseInt(group, 16)),
      16n,
    ),
  }
}

/** The network of an address such as 10.8.0.1/24 or fd00:8::1/64. */
export function parsePrefix(cidr: string): Prefix | null {
  const [text = '', length = ''] = cidr.split('/')
  const address = parseAddress(text)
  const bits = Number(length)
  if (!address || !/^\d+$/.test(length) || bits > address.width) return null
  const rest = BigInt(address.width - bits)
  return { ...address, first: (address.first >> rest) << rest, bits }
}

export const holds = (outer: Prefix, inner: Prefix) =>
  outer.width === inner.width &&
  outer.bits <= inner.bits &&
  inner.first >> BigInt(outer.width - outer.bits) === outer.first >> BigInt(outer.width - outer.bits)

export function textOf({ width, first, bits }: Prefix): string {
  const step = width === 32 ? 8 : 16
  const parts = Array.from({ length: width / step }, (_, n) =>
    Number((first >> BigInt(width - step * (n + 1))) & ((1n << BigInt(step)) - 1n)),
  )
  if (width === 32) return `${parts.join('.')}/${bits}`
  const long = parts.map((part) => part.toString(16)).join(':')
  return `${new URL(`http://[${long}]`).hostname.slice(1, -1)}/${bits}`
}
