import type { Intent } from '../../api/client'

/** The time to confirm a change in seconds: default and limits. */
export const confirmTime = { usual: 60, min: 10, max: 600 }

/** Kinds whose changes can cut off the user's own connection. */
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

/** The default for changes of these kinds: no reason, and confirmation if they can cut people off. */
export function usualIntent(...kinds: string[]): Intent {
  return { reason: '', within: kinds.some((kind) => risky.has(kind)) ? confirmTime.usual : 0 }
}

/** A number of seconds within the limits. The default if it is not a number. */
export function boundedSeconds(value: string | number): number {
  const seconds = Math.round(Number(value)) || confirmTime.usual
  return Math.min(confirmTime.max, Math.max(confirmTime.min, seconds))
}
