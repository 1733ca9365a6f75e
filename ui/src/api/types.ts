import type { Data, Item } from './resource'

// Names for what the OpenAPI document describes; nothing is typed twice.
export type ApiToken = Data<'/api-tokens'>[number]
export type AuditEntry = Data<'/audit'>[number]
export type Component = Data<'/system/components'>[number]
export type ConfigPreview = Data<'/system/config-preview'>
export type Me = Data<'/auth/me'>
export type NtpPool = Item<'/ntp/pools'>
export type NtpSource = Data<'/ntp/sources'>['sources'][number]
export type OidcTest = Data<'/oidc/test', 'post'>
export type Passkey = Data<'/auth/passkeys'>[number]
export type Resources = Data<'/system/resources'>
export type Service = Data<'/system/services'>['services'][number]
export type Session = Data<'/auth/sessions'>[number]
export type SetupStatus = Data<'/setup/status'>
export type TotpSetup = Data<'/auth/totp/setup', 'post'>
export type User = Item<'/users'>
