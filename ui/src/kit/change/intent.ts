import type { Intent } from '../../api/client'

/** How long there is to confirm a change, in seconds, and the bounds of that. */
export const confirmTime = { usual: 60, min: 10, max: 600 }

/** What can cut off the very connection that it is changed over. */
const risky = new Set([
  'firewall.rule',
  'firewall.nat-rule',
  'firewall.zone',
  'firewall.address-object',
  'firewall.address-group',
  'firewall.service',
  'firewall.service-group',
  'tunnel.interface',
  'tunnel.peer',
  'forward-proxy.settings',
  'network.interface',
  'network.ip-address',
  'network.route',
  'cluster.vip-settings',
  'dns.settings',
  'radius.settings',
  'ids.settings',
  'system.settings',
])

/** What a change of these kinds begins with: no reason, and a confirmation where it can cut people off. */
export function usualIntent(...kinds: string[]): Intent {
  return { reason: '', within: kinds.some((kind) => risky.has(kind)) ? confirmTime.usual : 0 }
}

/** A number of seconds as the gateway takes it; what is not one is the usual. */
export function boundedSeconds(value: string | number): number {
  const seconds = Math.round(Number(value)) || confirmTime.usual
  return Math.min(confirmTime.max, Math.max(confirmTime.min, seconds))
}
