import { resource } from '../../api/resource'

export const users = resource('user', '/users')
