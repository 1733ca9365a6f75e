import { extension, orderedResource, resource, settings, singleton } from './resource'

// Every kind of row that the console knows, and its API path.

export const channels = resource('alert.channel', '/alerts')
export const mutes = resource('alert.mute', '/alert-mutes')
export const alertSettings = settings('alert.settings', '/alerts/settings')

export const targets = resource('backup.remote', '/backup-remotes')
export const backupSettings = settings('backup.settings', '/backup-settings')

export const certificates = resource('certificate.certificate', '/certificates')
export const dnsProviders = resource('certificate.dns-provider', '/dns-providers')
export const acme = singleton('certificate.acme', '/certificates/acme', 'put')

export const vipSettings = settings('cluster.vip-settings', '/cluster/vip-settings')

export const dhcpSubnets = resource('dhcp.subnet', '/dhcp/subnets')
export const dhcpReservations = resource('dhcp.reservation', '/dhcp/reservations')
export const dhcpSettings = settings('dhcp.settings', '/dhcp/settings')

export const dnsZones = resource('dns.zone', '/dns/zones')
export const dnsRecords = resource('dns.record', '/dns/records')
export const dnsSettings = settings('dns.settings', '/dns/settings')

export const zones = resource('firewall.zone', '/firewall/zones')
export const addresses = resource('firewall.address-object', '/firewall/address-objects')
export const addressGroups = resource('firewall.address-group', '/firewall/address-groups')
export const services = resource('firewall.service', '/firewall/services')
export const serviceGroups = resource('firewall.service-group', '/firewall/service-groups')
export const rules = orderedResource('firewall.rule', '/firewall/rules')
export const natRules = orderedResource('firewall.nat-rule', '/nat-rules')

export const forwardProxyAcls = orderedResource('forward-proxy.acl', '/forward-proxy/acls')
export const forwardProxySettings = settings('forward-proxy.settings', '/forward-proxy/settings')

export const idsSettings = settings('ids.settings', '/ids/settings')

export const interfaces = resource('network.interface', '/network-interfaces')
export const ipAddresses = resource('network.ip-address', '/ip-addresses')
export const routes = resource('network.route', '/routes')

export const ntpPools = resource('ntp.pool', '/ntp/pools')
export const ntpSettings = settings('ntp.settings', '/ntp/settings')

export const domains = resource('proxy.domain', '/domains')
export const headersOf = (domain: string) => resource('proxy.header', '/domains/{parent}/headers', domain)
export const backends = resource('proxy.backend', '/backends')
export const servers = resource('proxy.server', '/backend-servers')
export const routingRules = orderedResource('proxy.routing-rule', '/routing-rules')

export const radiusUsers = resource('radius.user', '/radius/users')
export const radiusClients = resource('radius.client', '/radius/clients')
export const radiusSettings = settings('radius.settings', '/radius/settings')

export const tunnels = resource('tunnel.interface', '/tunnel/interfaces')
export const peers = resource('tunnel.peer', '/peers')

export const maintenance = singleton('system.maintenance', '/system/maintenance', 'post')
export const ipv6 = singleton('system.settings', '/system/ipv6', 'post')
export const retention = singleton('system.retention', '/system/retention', 'put')
export const autoUpdate = singleton('system.auto-update', '/system/auto-update', 'post')

export const users = resource('user', '/users')

export const wafConfigs = extension('waf.config', '/waf/configs')

export const oidcSettings = settings('oidc.settings', '/oidc/settings')
