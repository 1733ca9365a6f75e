import { resource, settings } from '../../api/resource'

export const dnsZones = resource('dns.zone', '/dns/zones')
export const dnsRecords = resource('dns.record', '/dns/records')
export const dnsSettings = settings('dns.settings', '/dns/settings')
