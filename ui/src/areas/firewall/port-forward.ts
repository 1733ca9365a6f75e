import type { Values } from '../../kit/form/fields'
import { natShape } from './nat-text'

/** The default name of a port forward says what it does. */
export function forwardFollows({ protocol, dst_port, target_address }: Values): Values {
  return { name: dst_port && target_address ? `${protocol} ${dst_port} to ${target_address}` : '' }
}

/** A port forward is a DNAT rule for traffic from the WAN zone. */
export const forwardShape = {
  read: natShape.read,
  write: (values: Values): Values => natShape.write({ ...values, kind: 'dnat', in_zone: 'wan' }),
}
