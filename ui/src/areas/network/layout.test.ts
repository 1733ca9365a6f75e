import { describe, expect, it } from 'vitest'
import type { NetworkInterface } from '../../api/types'
import { type Box, byZone, groups, layOut, mostAddresses, shorten, size } from './layout'
import { joinLinks } from './links'
import { declare, live, plug } from './samples'

const join = (declared: NetworkInterface[], names: string[] = []) =>
  joinLinks({ declared, addresses: [], live: names.map((name) => plug(name)), adoptable: [] })

const tower = join(
  [
    declare('bond0.10', { type: 'vlan', parent: 'bond0', vlan_id: 10 }),
    declare('bond0', { type: 'bond', members: ['eth0', 'eth1'] }),
    declare('eth5', { role: 'wan' }),
    declare('eth6', { role: 'dmz' }),
  ],
  ['eth0', 'eth1', 'eth9'],
)

const overlap = (a: Box, b: Box) =>
  a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height

/** Converts a path of straight lines to boxes without width or height. */
function straight(path: string): Box[] {
  const at = { x: 0, y: 0 }
  return [...path.matchAll(/([MHV])([\d.]+)(?: ([\d.]+))?/g)].flatMap(([, verb, first, second]) => {
    const from = { ...at }
    if (verb !== 'V') at.x = Number(first)
    if (verb !== 'H') at.y = Number(second ?? first)
    if (verb === 'M') return []
    const [x, y] = [Math.min(from.x, at.x), Math.min(from.y, at.y)]
    return [{ x, y, width: Math.abs(from.x - at.x), height: Math.abs(from.y - at.y) }]
  })
}

describe('the picture', () => {
  it('groups by zone: outside, inside, the others, and those without a zone last', () => {
    const zones = [...byZone(tower)].map(([zone, links]) => [zone, links.map(({ name }) => name)])
    expect(zones).toEqual([
      ['wan', ['eth5']],
      ['lan', ['bond0', 'bond0.10', 'eth0', 'eth1']],
      ['dmz', ['eth6']],
      [undefined, ['eth9']],
    ])
  })

  it('puts interfaces made of others before those', () => {
    const lan = byZone(tower).get('lan') ?? []
    expect(groups(lan).map((group) => group.map((column) => column.map(({ name }) => name)))).toEqual([
      [['bond0.10'], ['bond0'], ['eth0', 'eth1']],
    ])
  })

  it('draws each interface once without overlaps, however many there are', () => {
    const many = join(Array.from({ length: 60 }, (_, index) => declare(`eth${index}`, { role: `zone${index % 4}` })))
    for (const links of [tower, many]) {
      const { bands, width, height } = layOut(links, 1000)
      const cards = bands.flatMap((band) => band.cards)
      expect(cards.map(({ link }) => link.name).sort()).toEqual(links.map(({ name }) => name).sort())
      for (const boxes of [cards, bands]) {
        for (const [index, one] of boxes.entries()) {
          for (const other of boxes.slice(index + 1)) expect(overlap(one, other)).toBe(false)
        }
      }
      for (const box of cards) {
        expect(box.x + box.width).toBeLessThanOrEqual(width)
        expect(box.y + box.height).toBeLessThanOrEqual(height)
      }
    }
  })

  it('has a line to each zone, and from each interface to those below it', () => {
    const { trunks, edges } = layOut(tower, 1000)
    expect(trunks).toHaveLength(4)
    expect(edges.map(({ key }) => key)).toEqual(['bond0.10 bond0', 'bond0 eth0', 'bond0 eth1'])
  })

  it('puts zones side by side, as many as fit', () => {
    const rows = (room: number) => [...new Set(layOut(tower, room).bands.map(({ y }) => y))].length
    expect([rows(3000), rows(1200), rows(500)]).toEqual([1, 3, 4])
  })

  it('draws no line through a zone or the gateway', () => {
    for (const room of [500, 1200, 3000]) {
      const { trunks, bands, gateway } = layOut(tower, room)
      for (const { path } of trunks) {
        for (const line of straight(path)) {
          for (const box of [...bands, gateway]) expect(overlap(line, box)).toBe(false)
        }
      }
    }
  })

  it('says in words, not by a line, what is made of an interface in another zone', () => {
    const apart = join([
      declare('lan0', { role: 'lan' }),
      declare('lan0.20', { type: 'vlan', role: 'guest', parent: 'lan0' }),
    ])
    expect(layOut(apart, 1000).edges).toEqual([])
  })

  it('handles no interfaces, and loops of interfaces', () => {
    expect(layOut([], 1000).height).toBe(size.gateway.height)
    const ring = join([
      declare('a', { type: 'bridge', members: ['b'] }),
      declare('b', { type: 'bridge', members: ['a'] }),
    ])
    expect(layOut(ring, 1000).bands[0]?.cards).toHaveLength(2)
  })

  it('counts the addresses that do not fit', () => {
    const addresses = Array.from({ length: mostAddresses + 3 }, (_, index) => live(`10.0.0.${index}`, 24))
    const links = joinLinks({
      declared: [],
      addresses: [],
      live: [plug('eth0', { addr_info: addresses })],
      adoptable: [],
    })
    const [card] = layOut(links, 1000).bands[0]?.cards ?? []
    expect(card?.shown).toHaveLength(mostAddresses)
    expect(card?.height).toBe(size.head + (mostAddresses + 1) * size.line + size.foot)
  })
})

it('shortens a text in its middle', () => {
  expect(shorten('10.0.0.1/24', 20)).toBe('10.0.0.1/24')
  expect(shorten('2001:db8:1:2:3:4:5:6/64', 13.4)).toBe('2001:d…5:6/64')
})
