import type { BoundAddress, Link } from './links'

export interface Box {
  x: number
  y: number
  width: number
  height: number
}

export interface Card extends Box {
  link: Link
  /** The addresses that have room. */
  shown: BoundAddress[]
}

export interface Band extends Box {
  /** Undefined for links that belong to no zone. */
  zone: string | undefined
  cards: Card[]
}

export interface Line {
  key: string
  path: string
}

export interface Picture {
  width: number
  height: number
  gateway: Box
  bands: Band[]
  /** From the gateway to each zone. */
  trunks: Line[]
  /** From a vlan, a bridge or a bond to the links under it. */
  edges: Line[]
}

export const size = {
  gateway: { width: 108, height: 60 },
  trunk: 40,
  card: 252,
  /** The upper edge of a card's first address, and from one to the next. */
  head: 50,
  line: 18,
  foot: 28,
  /** Between columns there is room for lines, between rows there is not much to see. */
  column: 36,
  row: 12,
  pad: 12,
  title: 30,
  band: 14,
}

/** More addresses than these are counted, not drawn. */
export const mostAddresses = 4

/**
 * The network from left to right: the gateway, its zones as bands under each other, in each band what is reached
 * through it. What is made of other links stands before them; what belongs together stays together.
 */
export function layOut(links: readonly Link[], room: number): Picture {
  const left = size.gateway.width + size.trunk
  const bands: Band[] = []
  let y = 0
  for (const [zone, members] of byZone(links)) {
    const band = layBand(zone, members, { x: left, y }, room - left)
    bands.push(band)
    y += band.height + size.band
  }
  const height = Math.max(y - size.band, size.gateway.height)
  const width = Math.max(room, ...bands.map((band) => band.x + band.width))
  for (const band of bands) band.width = width - band.x
  const gateway = { x: 0, y: (height - size.gateway.height) / 2, ...size.gateway }
  return {
    width,
    height,
    gateway,
    bands,
    trunks: bands.map((band) => ({ key: band.zone ?? '', path: across(gateway, band) })),
    edges: edgesOf(bands),
  }
}

const first = ['wan', 'lan']

/** Links by the zone they serve: their own, or that of what is made of them. Those without one come last. */
export function byZone(links: readonly Link[]): Map<string | undefined, Link[]> {
  const above = (name: string) => links.filter(({ under }) => under.includes(name))
  const zoneOf = (link: Link, seen: string[] = []): string | undefined => {
    if (link.zone || seen.includes(link.name)) return link.zone
    for (const user of above(link.name)) {
      const zone = zoneOf(user, [...seen, link.name])
      if (zone) return zone
    }
    return undefined
  }
  const zones = new Map<string | undefined, Link[]>()
  for (const link of links) {
    const zone = zoneOf(link)
    zones.set(zone, [...(zones.get(zone) ?? []), link])
  }
  const rank = (zone: string | undefined) => (zone === undefined ? 3 : first.includes(zone) ? first.indexOf(zone) : 2)
  return new Map([...zones].sort(([a], [b]) => rank(a) - rank(b) || String(a).localeCompare(String(b))))
}

/** Groups of links side by side, in as many rows as they need. */
function layBand(zone: string | undefined, links: Link[], at: { x: number; y: number }, room: number): Band {
  const cards: Card[] = []
  const start = { x: at.x + size.pad, y: at.y + size.title }
  let { x, y } = start
  let right = x
  let rowHeight = 0
  for (const columns of groups(links)) {
    const width = columns.length * (size.card + size.column) - size.column
    if (x > start.x && x + width > at.x + room - size.pad) {
      x = start.x
      y += rowHeight + size.row
      rowHeight = 0
    }
    for (const [depth, column] of columns.entries()) {
      let top = y
      for (const link of column) {
        const card = { x: x + depth * (size.card + size.column), y: top, width: size.card, ...bodyOf(link), link }
        cards.push(card)
        top += card.height + size.row
      }
      rowHeight = Math.max(rowHeight, top - size.row - y)
    }
    right = Math.max(right, x + width)
    x += width + size.row
  }
  return { zone, cards, ...at, width: right + size.pad - at.x, height: y + rowHeight + size.pad - at.y }
}

function bodyOf({ addresses }: Link): Pick<Card, 'shown' | 'height'> {
  const shown = addresses.slice(0, mostAddresses)
  const lines = shown.length + (addresses.length > mostAddresses ? 1 : 0)
  return { shown, height: size.head + lines * size.line + size.foot }
}

/** Links that hang together, each group in columns: what is made of others before the others. */
export function groups(links: readonly Link[]): Link[][][] {
  const names = new Map(links.map((link) => [link.name, link]))
  const under = (link: Link) => link.under.flatMap((name) => names.get(name) ?? [])
  const above = (link: Link) => links.filter((one) => one.under.includes(link.name))
  const left = new Set(links)
  const found: Link[][][] = []
  for (const link of links) {
    if (!left.has(link)) continue
    const group: Link[] = []
    const waiting = [link]
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      if (!left.delete(next)) continue
      group.push(next)
      waiting.push(...above(next), ...under(next))
    }
    const depth = new Map<Link, number>()
    // No chain is longer than the group; what leads back to itself ends there.
    const sink = (one: Link, level: number) => {
      if (level >= group.length || (depth.get(one) ?? -1) >= level) return
      depth.set(one, level)
      for (const next of under(one)) sink(next, level + 1)
    }
    const tops = group.filter((one) => above(one).length === 0)
    for (const top of (tops.length > 0 ? tops : group.slice(0, 1)).sort(byName)) sink(top, 0)
    const columns: Link[][] = []
    for (const [one, level] of depth) columns[level] = [...(columns[level] ?? []), one]
    found.push(columns.filter(Boolean))
  }
  return found
}

const byName = (a: Link, b: Link) => a.name.localeCompare(b.name, 'en', { numeric: true })

function edgesOf(bands: Band[]): Line[] {
  const cards = new Map(bands.flatMap((band) => band.cards).map((card) => [card.link.name, card]))
  return [...cards.values()].flatMap((card) =>
    card.link.under.flatMap((name) => {
      const other = cards.get(name)
      return other ? [{ key: `${card.link.name} ${name}`, path: connect(card, other) }] : []
    }),
  )
}

/** Beside each other the line goes from side to side, otherwise from the lower edge of one to the upper of the other. */
function connect(from: Card, to: Card): string {
  if (to.x >= from.x + from.width) return across(from, to)
  const [upper, lower] = from.y <= to.y ? [from, to] : [to, from]
  const [x1, y1, x2, y2] = [upper.x + upper.width / 2, upper.y + upper.height, lower.x + lower.width / 2, lower.y]
  const middle = (y1 + y2) / 2
  return `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`
}

function across(from: Box, to: Box): string {
  const [x1, y1, x2, y2] = [from.x + from.width, from.y + from.height / 2, to.x, to.y + to.height / 2]
  const middle = (x1 + x2) / 2
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`
}

/** As much of a text as has room, without its middle. */
export function shorten(text: string, room: number): string {
  const most = Math.floor(room)
  if (text.length <= most) return text
  const tail = Math.floor((most - 1) / 2)
  return `${text.slice(0, most - 1 - tail)}…${text.slice(text.length - tail)}`
}
