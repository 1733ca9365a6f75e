import { expect, it } from 'vitest'
import type { Fields } from './fields'
import { known, startOfNew } from './known'

const sources: Fields<'ntp.pool'> = [
  { name: 'kind', type: 'choice' },
  { name: 'address', type: 'mono' },
  { name: 'minpoll', type: 'number', max: 12 },
]

it("starts with the API's values for a new row", () => {
  expect(startOfNew('ntp.pool', sources)).toEqual({ kind: 'pool', address: '', minpoll: 6 })
  expect(startOfNew('no.kind', sources)).toEqual({})
  const zone: Fields<'firewall.rule', 'service'> = [
    { name: 'src_zone', type: 'select' },
    { name: 'service', type: 'select' },
  ]
  // A select without a default starts as null, and a field that the API does not have is up to the form.
  expect(startOfNew('dhcp.reservation', [{ name: 'subnet_id', type: 'select' }])).toEqual({ subnet_id: null })
  expect(Object.keys(startOfNew('firewall.rule', zone))).toEqual(['src_zone'])
})

it('takes limits, choices and required fields from the API, unless the form says otherwise', () => {
  expect(known('ntp.pool', sources)).toMatchObject([
    { name: 'kind', options: ['pool', 'server'] },
    { name: 'address', required: true },
    { name: 'minpoll', min: -6, max: 12 },
  ])
  // A choice always has a value, and a secret may keep the stored one.
  const protocol: Fields<'firewall.service'> = [{ name: 'protocol', type: 'segments' }]
  expect(known('firewall.service', protocol)[0]?.required).toBe(false)
  const secret: Fields<'radius.client'> = [{ name: 'secret', type: 'password' }]
  expect(known('radius.client', secret)[0]?.required).toBeFalsy()
})

it('rejects a field that the API does not have', () => {
  // @ts-expect-error: it is called address.
  const fields: Fields<'ntp.pool'> = [{ name: 'adress', type: 'mono' }]
  expect(fields).toHaveLength(1)
  // @ts-expect-error: only API fields can be covered.
  const covers: Fields<'alert.channel', 'from'> = [{ name: 'from', type: 'mono', covers: ['setings.from'] }]
  expect(covers).toHaveLength(1)
})
