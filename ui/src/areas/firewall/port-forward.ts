import type { Values } from '../../kit/form/fields'
import { natShape } from './nat-text'

/** A port forward is called what it does, as long as nobody says otherwise. */
export function forwardFollows({ protocol, dst_port, target_address }: Values): Values {
  return { name: dst_port && target_address ? `${protocol} ${dst_port} to ${target_address}` : '' }
}

/** It takes what comes from the internet to the gateway's own addresses. */
export const forwardShape = {
  read: natShape.read,
  write: (values: Values): Values => natShape.write({ ...values, kind: 'dnat', in_zone: 'wan' }),
}
