import { resource } from '../../api/resource'

export const interfaces = resource('network.interface', '/network-interfaces')
export const ipAddresses = resource('network.ip-address', '/ip-addresses')
export const routes = resource('network.route', '/routes')
