import { expect, it } from 'vitest'
import { forwardFollows, forwardShape } from './port-forward'

it('is named after what it does', () => {
  expect(forwardFollows({ protocol: 'tcp', dst_port: 8443, target_address: '10.0.0.5' })).toEqual({
    name: 'tcp 8443 to 10.0.0.5',
  })
  expect(forwardFollows({ protocol: 'tcp', dst_port: null, target_address: '10.0.0.5' })).toEqual({ name: '' })
})

it('is a DNAT rule from the internet', () => {
  const values = { protocol: 'tcp', dst_port: 8443, target_address: '10.0.0.5', target_port: null, src_cidr: '' }
  expect(forwardShape.write(values)).toEqual({
    ...values,
    kind: 'dnat',
    in_zone: 'wan',
    out_zone: 'any',
    src_cidr: null,
    dst_cidr: null,
  })
})
