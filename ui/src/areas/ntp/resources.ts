import { resource, singleton } from '../../api/resource'

export const ntpPools = resource('ntp.pool', '/ntp/pools')
export const ntpSettings = singleton('ntp.settings', '/ntp/settings', 'put')
