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
  trunk: 30,
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
  /** Over each row of bands, for the lines to them. */
  bus: 22,
}

/** More links than these are a list, not a picture. */
export const mostLinks = 200

/** More addresses than these are counted, not drawn. */
export const mostAddresses = 4

/**
 * The gateway, and its zones beside each other in as many rows as they need. Lines to the zones run between the rows, so that they cross
 * nothing. In a zone, what is made of other links stands before them; what belongs together stays together.
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

/** Lines to the next column. Where a link is made of one in another zone or further away, its card says so in words. */
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

/** From the gateway, through the space before all bands and the space over this one's row, down to the band. */
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

/** As much of a text as has room, without its middle. */
export function shorten(text: string, room: number): string {
  const most = Math.floor(room)
  if (text.length <= most) return text
  const tail = Math.floor((most - 1) / 2)
  return `${text.slice(0, most - 1 - tail)}…${text.slice(text.length - tail)}`
}
