import type { BoundAddress, Link } from './links'

export interface Box {
  x: number
  y: number
  width: number
  height: number
}

export interface Card extends Box {
  link: Link
  /** The addresses that fit. */
  shown: BoundAddress[]
}

export interface Band extends Box {
  /** Undefined for interfaces without a zone. */
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
  /** From a VLAN, a bridge or a bond to the interfaces below it. */
  edges: Line[]
}

export const size = {
  gateway: { width: 108, height: 60 },
  trunk: 30,
  card: 252,
  /** The top of a card's first address, and the height of an address line. */
  head: 50,
  line: 18,
  foot: 28,
  /** Lines run between columns, not between rows. */
  column: 36,
  row: 12,
  pad: 12,
  title: 30,
  band: 14,
  /** Space above each row of bands, for the lines to them. */
  bus: 22,
}

/** With more interfaces, a list is shown instead. */
export const mostLinks = 200

/** With more addresses, the rest are counted. */
export const mostAddresses = 4

/**
 * The gateway, with its zones next to each other in as many rows as needed. Lines to the zones run between the rows, so
 * that they cross nothing. Within a zone, connected interfaces stay together, and those made of others come first.
 */
export function layOut(links: readonly Link[], room: number): Picture {
  const left = size.gateway.width + size.trunk
  const rows: Band[][] = []
  const at = { x: left, y: size.bus }
  for (const [zone, members] of byZone(links)) {
    const band = layBand(zone, members, room - left)
    const row = rows.at(-1)
    if (!row || at.x + band.width > room) {
      if (row) at.y += tallest(row) + size.bus
      at.x = left
      rows.push([])
    }
    rows.at(-1)?.push(moved(band, at))
    at.x += band.width + size.band
  }
  for (const row of rows) for (const band of row) band.height = tallest(row)
  const bands = rows.flat()
  const gateway = { x: 0, y: 0, ...size.gateway }
  return {
    width: Math.max(room, ...bands.map((band) => band.x + band.width)),
    height: Math.max(gateway.height, ...bands.map((band) => band.y + band.height)),
    gateway,
    bands,
    trunks: bands.map((band) => ({ key: band.zone ?? '', path: trunk(gateway, band) })),
    edges: bands.flatMap(edgesOf),
  }
}

const tallest = (row: Band[]) => Math.max(...row.map(({ height }) => height))

const moved = (band: Band, { x, y }: { x: number; y: number }): Band => ({
  ...band,
  x,
  y,
  cards: band.cards.map((card) => ({ ...card, x: card.x + x, y: card.y + y })),
})

const first = ['wan', 'lan']

/** Interfaces by zone: their own, else that of an interface on top of them. Those without a zone come last. */
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

/** Groups of interfaces side by side, in as many rows as needed. */
function layBand(zone: string | undefined, links: Link[], room: number): Band {
  const cards: Card[] = []
  const start = { x: size.pad, y: size.title }
  let { x, y } = start
  let right = x
  let rowHeight = 0
  for (const columns of groups(links)) {
    const width = columns.length * (size.card + size.column) - size.column
    if (x > start.x && x + width > room - size.pad) {
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
  return { zone, cards, x: 0, y: 0, width: right + size.pad, height: y + rowHeight + size.pad }
}

function bodyOf({ addresses }: Link): Pick<Card, 'shown' | 'height'> {
  const shown = addresses.slice(0, mostAddresses)
  const lines = shown.length + (addresses.length > mostAddresses ? 1 : 0)
  return { shown, height: size.head + lines * size.line + size.foot }
}

/** Groups of connected interfaces, each in columns: those made of others come before the others. */
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
    // No chain is longer than its group, so this also ends a loop.
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

/**
 * Lines to the next column. If an interface is made of one further away or in another zone, its card says so in words.
 */
function edgesOf({ cards }: Band): Line[] {
  const named = new Map(cards.map((card) => [card.link.name, card]))
  return cards.flatMap((card) =>
    card.link.under.flatMap((name) => {
      const other = named.get(name)
      if (other?.x !== card.x + card.width + size.column) return []
      return [{ key: `${card.link.name} ${name}`, path: across(card, other) }]
    }),
  )
}

/** From the gateway, along the space left of all bands and the space above the band's row, down to the band. */
function trunk(gateway: Box, band: Box): string {
  const [start, middle] = [gateway.x + gateway.width, gateway.y + gateway.height / 2]
  return `M${start} ${middle}H${start + size.trunk / 2}V${band.y - size.bus / 2}H${band.x + 2 * size.pad}V${band.y}`
}

/** From the right side of one to the left side of the other. */
function across(from: Box, to: Box): string {
  const [x1, y1, x2, y2] = [from.x + from.width, from.y + from.height / 2, to.x, to.y + to.height / 2]
  const middle = (x1 + x2) / 2
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`
}

/** Shortens a text to a number of characters, by cutting out the middle. */
export function shorten(text: string, room: number): string {
  const most = Math.floor(room)
  if (text.length <= most) return text
  const tail = Math.floor((most - 1) / 2)
  return `${text.slice(0, most - 1 - tail)}…${text.slice(text.length - tail)}`
}
