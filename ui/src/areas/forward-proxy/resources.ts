import { orderedResource, singleton } from '../../api/resource'

export const forwardProxyAcls = orderedResource('forward-proxy.acl', '/forward-proxy/acls')
export const forwardProxySettings = singleton('forward-proxy.settings', '/forward-proxy/settings', 'put')
