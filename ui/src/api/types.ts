import type { Data, Item } from './resource'

// Names for what the OpenAPI document describes; nothing is typed twice.
export type Address = Item<'/firewall/address-objects'>
export type AddressGroup = Item<'/firewall/address-groups'>
export type Adoptable = Data<'/network/adoptable'>[number]
export type ApiToken = Data<'/api-tokens'>[number]
export type AuditEntry = Data<'/audit'>[number]
export type Backend = Item<'/backends'>
export type Certificate = Item<'/certificates'>
export type Component = Data<'/system/components'>[number] & {
  daemon?: '' | 'running' | 'down' | 'off'
  detail?: string
}
export type ConfigPreview = Data<'/system/config-preview'>
export type Counter = Data<'/firewall/counters'>[number] & { total_packets?: number; total_bytes?: number }
export type DhcpLeases = Data<'/dhcp/leases'>
export type DhcpLease = DhcpLeases['leases'][number]
export type DhcpReservation = Item<'/dhcp/reservations'>
export type DhcpSubnet = Item<'/dhcp/subnets'>
export type DhcpUsage = DhcpLeases['usage'][number]
export type DnsProvider = Item<'/dns-providers'>
export type DnsRecord = Item<'/dns/records'>
export type DnsZone = Item<'/dns/zones'>
export type Domain = Item<'/domains'>
export type Explanation = Data<'/firewall/explain', 'post'>
export type Findings = Data<'/certificates/preflight', 'post'>
export type FirewallService = Item<'/firewall/services'>
export type FirewallServiceGroup = Item<'/firewall/service-groups'>
export type ForwardProxyAcl = Item<'/forward-proxy/acls'>
export type Header = Item<'/domains/{parent}/headers'>
export type Insights = Data<'/firewall/insights'>
export type IpAddress = Item<'/ip-addresses'>
export type LiveLink = Data<'/system/interfaces'>[number]
export type LiveRoute = Data<'/routes/live'>[number]
export type LogEvent = Data<'/firewall/log'>['events'][number]
export type Me = Data<'/auth/me'>
export type NatRule = Item<'/nat-rules'>
export type NetworkInterface = Item<'/network-interfaces'>
export type NtpPool = Item<'/ntp/pools'>
export type NtpSource = Data<'/ntp/sources'>['sources'][number]
export type OidcTest = Data<'/oidc/test', 'post'>
export type Passkey = Data<'/auth/passkeys'>[number]
export type ProxyHistory = Data<'/proxy/stats/history'>
export type ProxyStats = Data<'/proxy/stats'>
export type RadiusClient = Item<'/radius/clients'>
export type RadiusLogins = Data<'/radius/authentications'>
export type RadiusLogin = RadiusLogins['authentications'][number]
export type RadiusUser = Item<'/radius/users'>
export type Resources = Data<'/system/resources'>
export type Route = Item<'/routes'>
export type RoutingRule = Item<'/routing-rules'>
export type Rule = Item<'/firewall/rules'>
export type Server = Item<'/backend-servers'>
export type Service = Data<'/system/services'>['services'][number]
export type Session = Data<'/auth/sessions'>[number]
export type SetupStatus = Data<'/setup/status'>
export type TotpSetup = Data<'/auth/totp/setup', 'post'>
export type Tunnel = Item<'/tunnel/interfaces'>
export type TunnelDevice = Data<'/tunnel/devices'>[number]
export type TunnelPeer = Item<'/peers'>
export type TunnelPeerStatus = Data<'/tunnel/status'>[string]
export type User = Item<'/users'>
export type Zone = Item<'/firewall/zones'>
