import { resource, singleton } from '../../api/resource'

export const certificates = resource('certificate.certificate', '/certificates')
export const dnsProviders = resource('certificate.dns-provider', '/dns-providers')
export const acme = singleton('certificate.acme', '/certificates/acme', 'put')
