import { orderedResource, resource } from '../../api/resource'

export const zones = resource('firewall.zone', '/firewall/zones')
export const addresses = resource('firewall.address-object', '/firewall/address-objects')
export const addressGroups = resource('firewall.address-group', '/firewall/address-groups')
export const services = resource('firewall.service', '/firewall/services')
export const serviceGroups = resource('firewall.service-group', '/firewall/service-groups')
export const rules = orderedResource('firewall.rule', '/firewall/rules')
export const natRules = orderedResource('firewall.nat-rule', '/nat-rules')
