import { expect, it } from 'vitest'
import { networkFollows, networkOfForm } from './network-form'

const guest = {
  on: 'vlan',
  parent: 'eth1',
  vlan_id: 20,
  port: 'eth2',
  role: 'guest',
  name: 'guest20',
  address: '10.20.0.1/24',
  dhcp: true,
  range_start: '10.20.0.128',
  range_end: '10.20.0.254',
  dns: true,
  ntp: false,
  internet: true,
  isolated: true,
}

it('names a VLAN by its zone and number, and hands out half of its network', () => {
  expect(networkFollows({ role: 'guest', vlan_id: 20, address: '10.20.0.1/24' })).toEqual({
    name: 'guest20',
    range_start: '10.20.0.128',
    range_end: '10.20.0.254',
  })
  // Interface names have at most 15 characters.
  expect(networkFollows({ role: 'a-very-long-zone', vlan_id: 4094, address: '' })).toEqual({
    name: 'a-very-long4094',
    range_start: '',
    range_end: '',
  })
})

it('is a VLAN on its parent, or a port', () => {
  expect(networkOfForm(guest)).toMatchObject({
    name: 'guest20',
    type: 'vlan',
    parent: 'eth1',
    vlan_id: 20,
    addresses: ['10.20.0.1/24'],
    ntp: false,
    lan: false,
  })
  expect(networkOfForm({ ...guest, on: 'port', isolated: false })).toMatchObject({
    name: 'eth2',
    type: 'ethernet',
    parent: '',
    vlan_id: null,
    lan: true,
  })
})

it('hands out nothing if DHCP is off, and a second port in the LAN needs no rule to it', () => {
  expect(networkOfForm({ ...guest, dhcp: false, role: 'lan', isolated: false })).toMatchObject({
    dhcp: false,
    range_start: '',
    range_end: '',
    lan: false,
  })
})
