import { orderedResource, resource } from '../../api/resource'

export const domains = resource('proxy.domain', '/domains')
export const headersOf = (domain: string) => resource('proxy.header', '/domains/{parent}/headers', domain)
export const backends = resource('proxy.backend', '/backends')
export const servers = resource('proxy.server', '/backend-servers')
export const routingRules = orderedResource('proxy.routing-rule', '/routing-rules')
