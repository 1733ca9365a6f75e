import { expect, it } from 'vitest'
import type { ProposedNetwork } from '../../api/types'
import { proposal, rangeOf, reachesOut, setupOf, withAddresses, withZone } from './adoption'
import { find } from './samples'

const network = (name: string, part: Partial<ProposedNetwork> = {}): ProposedNetwork => ({
  name,
  type: 'ethernet',
  parent: '',
  vlan_id: null,
  members: [],
  bond_mode: null,
  role: 'lan',
  addresses: [],
  gateway: '',
  dhcp: false,
  range_start: '',
  range_end: '',
  dns: false,
  ntp: false,
  internet: false,
  lan: false,
  ...part,
})
const served = { dhcp: true, dns: true, ntp: true, internet: true }
const lan = network('lan0', {
  addresses: ['10.10.0.1/24'],
  range_start: '10.10.0.128',
  range_end: '10.10.0.254',
  ...served,
})
const wan = network('wan0', { role: 'wan', addresses: ['198.51.100.7/24'], gateway: '198.51.100.1' })
const proposed = { networks: [wan, lan], upstream_forwards: ['9.9.9.9'], time_servers: ['pool.ntp.org'] }

it("proposes the gateway's services for existing interfaces", () => {
  const choices = proposal([find('lan0'), find('wan0'), find('eth9')], proposed)
  expect(choices.map(({ link, take, network: { role } }) => [link.name, take, role])).toEqual([
    ['wan0', true, 'wan'],
    ['lan0', true, 'lan'],
  ])
  expect(reachesOut(choices)).toBe(true)
  expect(reachesOut(choices.map((one) => ({ ...one, take: false })))).toBe(false)
})

it('hands out the half of the network without the gateway, and follows the address', () => {
  expect(rangeOf(['fd00::1/64', '10.1.0.254/24'])).toEqual({ range_start: '10.1.0.1', range_end: '10.1.0.127' })
  expect(withAddresses(lan, ['172.16.0.1/24'])).toMatchObject({ range_start: '172.16.0.128', dhcp: true, dns: true })
  expect(withAddresses(lan, ['fd00::1/64'])).toMatchObject({ range_start: '', dhcp: false, dns: true, ntp: true })
  expect(withAddresses(lan, [])).toMatchObject({ dhcp: false, dns: false, ntp: false, internet: true })
  expect(withAddresses(wan, [])).toMatchObject({ addresses: [], gateway: '' })
})

it('serves the inside, but not the outside', () => {
  expect(withZone(lan, 'dmz')).toEqual({ ...lan, role: 'dmz' })
  expect(withZone(lan, 'wan')).toMatchObject({ role: 'wan', dhcp: false, dns: false, ntp: false, internet: false })
  expect(withZone(wan, 'lan')).toMatchObject({ role: 'lan', gateway: '', ...served, range_start: '198.51.100.128' })
  expect(withZone(network('eth2', { role: 'wan' }), 'lan')).toMatchObject({ dhcp: false, dns: false, internet: true })
})

it('sends what was chosen, and sources only if they changed', () => {
  const choices = proposal([find('lan0'), find('wan0')], proposed).map((one) => ({
    ...one,
    take: one.link.name === 'lan0',
  }))
  const { upstream_forwards, time_servers } = proposed
  expect(setupOf(choices, { upstream_forwards, time_servers, masquerade: true }, proposed)).toEqual({
    networks: [lan],
    sources: { masquerade: true },
  })
  expect(
    setupOf(choices, { upstream_forwards: [], time_servers: ['192.0.2.1'], masquerade: false }, proposed).sources,
  ).toEqual({ masquerade: false, upstream_forwards: [], time_servers: ['192.0.2.1'] })
})
