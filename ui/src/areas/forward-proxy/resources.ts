import { orderedResource, settings } from '../../api/resource'

export const forwardProxyAcls = orderedResource('forward-proxy.acl', '/forward-proxy/acls')
export const forwardProxySettings = settings('forward-proxy.settings', '/forward-proxy/settings')
