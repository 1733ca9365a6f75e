import { resource, settings } from '../../api/resource'

export const ntpPools = resource('ntp.pool', '/ntp/pools')
export const ntpSettings = settings('ntp.settings', '/ntp/settings')
