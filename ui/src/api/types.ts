import type { Data, Item } from './resource'

// Names for what the OpenAPI document describes; nothing is typed twice.
export type Address = Item<'/firewall/address-objects'>
export type AddressGroup = Item<'/firewall/address-groups'>
export type Adoptable = Data<'/network/adoptable'>[number]
export type ApiToken = Data<'/api-tokens'>[number]
export type AuditEntry = Data<'/audit'>[number]
export type Component = Data<'/system/components'>[number]
export type ConfigPreview = Data<'/system/config-preview'>
export type Counter = Data<'/firewall/counters'>[number]
export type Explanation = Data<'/firewall/explain', 'post'>
export type FirewallService = Item<'/firewall/services'>
export type FirewallServiceGroup = Item<'/firewall/service-groups'>
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
export type Resources = Data<'/system/resources'>
export type Route = Item<'/routes'>
export type Rule = Item<'/firewall/rules'>
export type Service = Data<'/system/services'>['services'][number]
export type Session = Data<'/auth/sessions'>[number]
export type SetupStatus = Data<'/setup/status'>
export type TotpSetup = Data<'/auth/totp/setup', 'post'>
export type User = Item<'/users'>
export type Zone = Item<'/firewall/zones'>
