/** Every address of the console is made here. */
export const paths = {
  overview: '/',
  ntp: '/services/ntp',
  ntpServers: '/services/ntp/servers',
  ntpServerNew: '/services/ntp/servers/new',
  ntpServer: (id: string) => `/services/ntp/servers/${encodeURIComponent(id)}`,
  ntpSettings: '/services/ntp/settings',
  audit: '/operations/audit',
  auditEntry: (id: string) => `/operations/audit/${encodeURIComponent(id)}`,
  components: '/system/components',
  component: (name: string) => `/system/components/${encodeURIComponent(name)}`,
  settings: '/system/settings',
  users: '/system/users',
  userNew: '/system/users/new',
  user: (id: string) => `/system/users/${encodeURIComponent(id)}`,
  profile: '/profile',
} as const
