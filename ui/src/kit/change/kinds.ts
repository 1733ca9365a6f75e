import { loadArea } from '../../i18n/areas'
import i18n, { optionalText } from '../../i18n/i18n'

/** Where the texts of each kind's form are. */
const texts: Record<string, string> = {
  user: 'users:user',
  'alert.channel': 'alerts:channel',
  'alert.mute': 'alerts:mute',
  'alert.settings': 'alerts:settings',
  'backup.remote': 'backups:targets.target',
  'backup.settings': 'backups:settings',
  'certificate.certificate': 'certificates:certificate',
  'certificate.dns-provider': 'certificates:provider',
  'cluster.vip-settings': 'cluster:settings',
  'dhcp.reservation': 'dhcp:reservation',
  'dhcp.settings': 'dhcp:settings',
  'dhcp.subnet': 'dhcp:subnet',
  'dns.record': 'dns:record',
  'dns.settings': 'dns:settings',
  'dns.zone': 'dns:zone',
  'firewall.address-group': 'firewall:addressGroup',
  'firewall.address-object': 'firewall:address',
  'firewall.nat-rule': 'firewall:nat',
  'firewall.rule': 'firewall:rule',
  'firewall.service': 'firewall:service',
  'firewall.service-group': 'firewall:serviceGroup',
  'firewall.zone': 'firewall:zone',
  'forward-proxy.acl': 'forward-proxy:acl',
  'forward-proxy.settings': 'forward-proxy:settings',
  'ids.settings': 'ids:settings',
  'network.interface': 'network:interface',
  'network.ip-address': 'network:address',
  'network.route': 'network:route',
  'ntp.pool': 'ntp:pool',
  'ntp.settings': 'ntp:settings',
  'oidc.settings': 'sso:settings',
  'proxy.backend': 'proxy:backend',
  'proxy.domain': 'proxy:domain',
  'proxy.header': 'proxy:header',
  'proxy.routing-rule': 'proxy:routing',
  'proxy.server': 'proxy:server',
  'radius.client': 'radius:client',
  'radius.settings': 'radius:settings',
  'radius.user': 'radius:user',
  'system.settings': 'settings:settings',
  'tunnel.interface': 'tunnels:tunnel',
  'tunnel.peer': 'tunnels:peer',
  'waf.config': 'waf:config',
  'waf.settings': 'waf:settings',
}

/** The kinds that the history covers. */
export const kinds = Object.keys(texts)

/** Loads the texts of kinds whose forms are not on the page. */
export async function loadTexts(of: readonly string[]): Promise<void> {
  const areas = new Set(of.map((kind) => texts[kind]?.split(':')[0]).filter((area) => area !== undefined))
  await Promise.all([...areas].map(loadArea))
}

/** The form's label of a field. */
export function fieldLabel(kind: string, field: string): string {
  return optionalText(`${texts[kind]}.${field}.label`) ?? optionalText(`fields.${field}`) ?? field.replaceAll('_', ' ')
}

/** Names of rows by id. */
export type Names = ReadonlyMap<string, string>

/** A value in the words of the form, with names instead of ids. */
export function valueText(kind: string, field: string, value: unknown, names: Names = new Map()): string {
  if (value === null || value === undefined || value === '') return '–'
  if (typeof value === 'boolean') return i18n.t(value ? 'on' : 'off')
  if (Array.isArray(value))
    return value.length > 0 ? value.map((one) => valueText(kind, field, one, names)).join(', ') : '–'
  if (typeof value === 'object') return JSON.stringify(value)
  const text = String(value)
  return optionalText(`${texts[kind]}.${field}.options.${text}`) ?? names.get(text) ?? text
}
