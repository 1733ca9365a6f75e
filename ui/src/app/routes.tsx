import { Button } from '@mantine/core'
import type { QueryClient } from '@tanstack/react-query'
import {
  type AnyRoute,
  createRootRouteWithContext,
  createRoute,
  createRouter,
  type ErrorComponentProps,
  Link,
  lazyRouteComponent,
} from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { meQuery } from '../api/session'
import i18n from '../i18n/i18n'
import { listSearch } from '../kit/list/list-logic'
import { Page } from '../kit/page/Page'
import { FaultNotice } from '../kit/state/Loaded'
import { Waiting } from '../kit/state/Waiting'
import { paths } from '../paths'
import { Shell } from './Shell'

const root = createRootRouteWithContext<{ queries: QueryClient }>()({
  // Show nothing until we know who the user is; without a session, the API client redirects to the login page.
  loader: ({ context }) => context.queries.ensureQueryData(meQuery),
  component: Shell,
  errorComponent: Broken,
  notFoundComponent: NotFound,
})

type Area = () => Promise<Record<string, unknown>>

/**
 * Chunk-reload handles chunks that fail to load. While it reloads the page there is nothing to show; if it does not,
 * our own error keeps the router from reloading again.
 */
const guarded = (load: Area) => () =>
  load().then(
    (area) => area ?? new Promise<never>(() => {}),
    () => Promise.reject(new Error(i18n.t('codeGone'))),
  )

const lazily = (load: Area, name = 'default') => lazyRouteComponent(guarded(load) as never, name as never)

const page = (path: string, load: Area) =>
  createRoute({ getParentRoute: () => root, path, validateSearch: listSearch, component: lazily(load) })

const part = (parent: AnyRoute, path: string, load: Area, name?: string) =>
  createRoute({ getParentRoute: () => parent, path, component: lazily(load, name) })

/** The part of a page at the page's own address, with drawers on top. */
const front = (parent: AnyRoute, load: Area) =>
  createRoute({ getParentRoute: () => parent, id: 'front', component: lazily(load) })
const at = (parent: AnyRoute, path: string) => createRoute({ getParentRoute: () => parent, path })

/** The drawers of a list. Its file exports the list, `Create` and `Edit`. */
const drawers = (list: AnyRoute, load: Area) => [part(list, 'new', load, 'Create'), part(list, '$id', load, 'Edit')]

const ntp = page(paths.ntp, () => import('../areas/ntp/NtpPage'))
const servers = () => import('../areas/ntp/Servers')
const ntpServers = part(ntp, 'servers', servers)

const vpn = page(paths.tunnels, () => import('../areas/tunnels/TunnelsPage'))
const tunnelList = () => import('../areas/tunnels/Tunnels')
const tunnels = front(vpn, tunnelList)
const tunnelPage = () => import('../areas/tunnels/Tunnel')
const tunnel = part(vpn, '$tunnel', tunnelPage)

const dns = page(paths.dns, () => import('../areas/dns/DnsPage'))
const zonesOfDns = () => import('../areas/dns/Zones')
const dnsZones = front(dns, zonesOfDns)
const zoneOfDns = () => import('../areas/dns/Zone')
const dnsZone = part(dns, 'zones/$zone', zoneOfDns)

const dhcp = page(paths.dhcp, () => import('../areas/dhcp/DhcpPage'))
const subnetsOfDhcp = () => import('../areas/dhcp/Subnets')
const dhcpSubnets = part(dhcp, 'subnets', subnetsOfDhcp)
const reservationsOfDhcp = () => import('../areas/dhcp/Reservations')
const dhcpReservations = part(dhcp, 'reservations', reservationsOfDhcp)

const forwardProxy = page(paths.forwardProxy, () => import('../areas/forward-proxy/ForwardProxyPage'))
const accessList = () => import('../areas/forward-proxy/AccessList')
const forwardProxyAcls = front(forwardProxy, accessList)

const radius = page(paths.radius, () => import('../areas/radius/RadiusPage'))
const usersOfRadius = () => import('../areas/radius/Users')
const radiusUsers = front(radius, usersOfRadius)
const clientsOfRadius = () => import('../areas/radius/Clients')
const radiusClients = part(radius, 'clients', clientsOfRadius)

const firewallRules = () => import('../areas/firewall/RulesPage')
const rules = page(paths.rules, firewallRules)
const firewallNat = () => import('../areas/firewall/NatPage')
const nat = page(paths.nat, firewallNat)
const firewallZones = () => import('../areas/firewall/ZonesPage')
const zones = page(paths.zones, firewallZones)

const objects = page(paths.addresses, () => import('../areas/firewall/ObjectsPage'))
const firewallAddresses = () => import('../areas/firewall/Addresses')
const addresses = front(objects, firewallAddresses)
const firewallAddressGroups = () => import('../areas/firewall/AddressGroups')
const addressGroups = part(objects, 'groups', firewallAddressGroups)

const services = page(paths.services, () => import('../areas/firewall/ServicesPage'))
const firewallServices = () => import('../areas/firewall/Services')
const singleServices = front(services, firewallServices)
const firewallServiceGroups = () => import('../areas/firewall/ServiceGroups')
const serviceGroups = part(services, 'groups', firewallServiceGroups)

const domainsPage = () => import('../areas/proxy/DomainsPage')
const domains = page(paths.domains, domainsPage)
const backendsPage = () => import('../areas/proxy/BackendsPage')
const backends = page(paths.backends, backendsPage)
const routingPage = () => import('../areas/proxy/RoutingPage')
const routing = page(paths.routing, routingPage)

const certificatesPage = page(paths.certificates, () => import('../areas/certificates/CertificatesPage'))
const certificateList = () => import('../areas/certificates/Certificates')
const certificates = front(certificatesPage, certificateList)
const providerList = () => import('../areas/certificates/Providers')
const providers = part(certificatesPage, 'providers', providerList)

const interfacesPage = () => import('../areas/network/InterfacesPage')
const interfaces = page(paths.interfaces, interfacesPage)
const addressesPage = () => import('../areas/network/AddressesPage')
const ipAddresses = page(paths.ipAddresses, addressesPage)
const routes = page(paths.routes, () => import('../areas/network/RoutesPage'))
const managedRoutes = () => import('../areas/network/ManagedRoutes')
const managed = front(routes, managedRoutes)

const clientsPage = () => import('../areas/clients/ClientsPage')
const clients = page(paths.clients, clientsPage)

const waf = page(paths.waf, () => import('../areas/waf/WafPage'))
const wafOverview = front(waf, () => import('../areas/waf/Overview'))
const alertsOfWaf = () => import('../areas/waf/Alerts')
const wafAlerts = part(waf, 'alerts', alertsOfWaf)

const ids = page(paths.ids, () => import('../areas/ids/IdsPage'))
const decisionsOfIds = () => import('../areas/ids/Decisions')
const idsDecisions = front(ids, decisionsOfIds)
const alertsOfIds = () => import('../areas/ids/Alerts')
const idsAlerts = part(ids, 'alerts', alertsOfIds)
const bouncersOfIds = () => import('../areas/ids/Bouncers')
const idsBouncers = part(ids, 'bouncers', bouncersOfIds)

const diagnostics = page(paths.diagnostics, () => import('../areas/diagnostics/DiagnosticsPage'))

const logs = page(paths.logs, () => import('../areas/logs/LogsPage'))

const backups = page(paths.backups, () => import('../areas/backups/BackupsPage'))
const targetsOfBackups = () => import('../areas/backups/Targets')
const backupTargets = part(backups, 'targets', targetsOfBackups)

const alerts = page(paths.alerts, () => import('../areas/alerts/AlertsPage'))
const eventsOfAlerts = () => import('../areas/alerts/Events')
const alertEvents = front(alerts, eventsOfAlerts)
const channelsOfAlerts = () => import('../areas/alerts/Channels')
const alertChannels = part(alerts, 'channels', channelsOfAlerts)
const mutesOfAlerts = () => import('../areas/alerts/Mutes')
const alertMutes = part(alerts, 'muted', mutesOfAlerts)

const audit = page(paths.audit, () => import('../areas/audit/AuditPage'))

const draft = page(paths.draft, () => import('../areas/history/DraftPage'))
const history = page(paths.history, () => import('../areas/history/HistoryPage'))
const reverts = () => import('../areas/history/Revert')

const components = page(paths.components, () => import('../areas/components/ComponentsPage'))

const usersPage = () => import('../areas/users/UsersPage')
const users = page(paths.users, usersPage)
const cluster = page(paths.cluster, () => import('../areas/cluster/ClusterPage'))
const license = page(paths.license, () => import('../areas/license/LicensePage'))

const referencePage = () => import('../areas/reference/ReferencePage')
const reference = page(paths.reference, referencePage)

const profile = page(paths.profile, () => import('../areas/profile/ProfilePage'))
const tokens = () => import('../areas/profile/Tokens')
const profileTokens = part(profile, 'tokens', tokens)

const tree = root.addChildren([
  page(paths.overview, () => import('../areas/overview/OverviewPage')),
  domains.addChildren(drawers(domains, domainsPage)),
  backends.addChildren(drawers(backends, backendsPage)),
  routing.addChildren(drawers(routing, routingPage)),
  certificatesPage.addChildren([
    certificates.addChildren([
      at(certificates, '/'),
      part(certificates, 'upload', certificateList, 'Upload'),
      ...drawers(certificates, certificateList),
    ]),
    providers.addChildren(drawers(providers, providerList)),
    part(certificatesPage, 'acme', () => import('../areas/certificates/Acme')),
  ]),
  page(paths.proxyStatistics, () => import('../areas/proxy/StatisticsPage')),
  vpn.addChildren([
    tunnels.addChildren([
      at(tunnels, '/'),
      part(tunnels, 'new', tunnelList, 'Create'),
      part(tunnels, 'import', () => import('../areas/tunnels/Import')),
    ]),
    tunnel.addChildren([
      part(tunnel, 'edit', tunnelPage, 'EditTunnel'),
      part(tunnel, '$id/config', tunnelPage, 'Config'),
      ...drawers(tunnel, tunnelPage),
    ]),
  ]),
  dns.addChildren([
    dnsZones.addChildren([at(dnsZones, '/'), part(dnsZones, 'new', zonesOfDns, 'Create')]),
    dnsZone.addChildren([part(dnsZone, 'edit', zoneOfDns, 'EditZone'), ...drawers(dnsZone, zoneOfDns)]),
    part(dns, 'settings', () => import('../areas/dns/Settings')),
    part(dns, 'statistics', () => import('../areas/dns/Statistics')),
  ]),
  dhcp.addChildren([
    part(dhcp, '/', () => import('../areas/dhcp/Leases')),
    dhcpSubnets.addChildren(drawers(dhcpSubnets, subnetsOfDhcp)),
    dhcpReservations.addChildren(drawers(dhcpReservations, reservationsOfDhcp)),
    part(dhcp, 'settings', () => import('../areas/dhcp/Settings')),
  ]),
  forwardProxy.addChildren([
    forwardProxyAcls.addChildren([at(forwardProxyAcls, '/'), ...drawers(forwardProxyAcls, accessList)]),
    part(forwardProxy, 'settings', () => import('../areas/forward-proxy/Settings')),
    part(forwardProxy, 'statistics', () => import('../areas/forward-proxy/Statistics')),
  ]),
  radius.addChildren([
    radiusUsers.addChildren([
      at(radiusUsers, '/'),
      part(radiusUsers, 'test', () => import('../areas/radius/TestLogin')),
      ...drawers(radiusUsers, usersOfRadius),
    ]),
    radiusClients.addChildren(drawers(radiusClients, clientsOfRadius)),
    part(radius, 'log-ins', () => import('../areas/radius/Logins')),
    part(radius, 'settings', () => import('../areas/radius/Settings')),
  ]),
  ntp.addChildren([
    part(ntp, '/', () => import('../areas/ntp/Sources')),
    ntpServers.addChildren(drawers(ntpServers, servers)),
    part(ntp, 'settings', () => import('../areas/ntp/Settings')),
  ]),
  rules.addChildren(drawers(rules, firewallRules)),
  nat.addChildren([
    part(nat, 'port-forward', () => import('../areas/firewall/PortForwardForm')),
    ...drawers(nat, firewallNat),
  ]),
  objects.addChildren([
    addresses.addChildren([at(addresses, '/'), ...drawers(addresses, firewallAddresses)]),
    addressGroups.addChildren(drawers(addressGroups, firewallAddressGroups)),
  ]),
  services.addChildren([
    singleServices.addChildren([at(singleServices, '/'), ...drawers(singleServices, firewallServices)]),
    serviceGroups.addChildren(drawers(serviceGroups, firewallServiceGroups)),
  ]),
  zones.addChildren(drawers(zones, firewallZones)),
  page(paths.firewallLog, () => import('../areas/firewall/LogPage')),
  page(paths.explain, () => import('../areas/firewall/ExplainPage')),
  interfaces.addChildren([
    part(interfaces, 'adopt', () => import('../areas/network/Adopt')),
    part(interfaces, 'network', () => import('../areas/network/NetworkForm')),
    ...drawers(interfaces, interfacesPage),
  ]),
  ipAddresses.addChildren(drawers(ipAddresses, addressesPage)),
  routes.addChildren([
    managed.addChildren([at(managed, '/'), ...drawers(managed, managedRoutes)]),
    part(routes, 'live', () => import('../areas/network/LiveRoutes')),
  ]),
  clients.addChildren([part(clients, '$id', clientsPage, 'Detail'), part(clients, '$id/block', clientsPage, 'Block')]),
  waf.addChildren([
    wafOverview.addChildren([
      at(wafOverview, '/'),
      part(wafOverview, 'domains/$id', () => import('../areas/waf/DomainForm')),
    ]),
    wafAlerts.addChildren([part(wafAlerts, '$id', () => import('../areas/waf/AlertDrawer'))]),
    part(waf, 'rules', () => import('../areas/waf/Rules')),
  ]),
  ids.addChildren([
    idsDecisions.addChildren([at(idsDecisions, '/'), part(idsDecisions, 'ban', decisionsOfIds, 'Create')]),
    idsAlerts.addChildren([part(idsAlerts, '$id', alertsOfIds, 'Detail')]),
    idsBouncers.addChildren([part(idsBouncers, 'new', bouncersOfIds, 'Create')]),
    part(ids, 'collections', () => import('../areas/ids/Collections')),
    part(ids, 'settings', () => import('../areas/ids/Settings')),
  ]),
  diagnostics.addChildren([
    part(diagnostics, '/', () => import('../areas/diagnostics/Tools')),
    part(diagnostics, 'reachability', () => import('../areas/diagnostics/Path')),
    part(diagnostics, 'connections', () => import('../areas/diagnostics/Connections')),
    part(diagnostics, 'capture', () => import('../areas/diagnostics/Capture')),
  ]),
  backups.addChildren([
    part(backups, '/', () => import('../areas/backups/Archives')),
    backupTargets.addChildren(drawers(backupTargets, targetsOfBackups)),
  ]),
  alerts.addChildren([
    alertEvents.addChildren([at(alertEvents, '/'), part(alertEvents, 'events/$id', eventsOfAlerts, 'Detail')]),
    alertChannels.addChildren(drawers(alertChannels, channelsOfAlerts)),
    alertMutes.addChildren(drawers(alertMutes, mutesOfAlerts)),
    part(alerts, 'thresholds', () => import('../areas/alerts/Settings')),
  ]),
  page(paths.jobs, () => import('../areas/jobs/JobsPage')),
  // The page itself shows an entry, because it often has it already.
  logs.addChildren([at(logs, '$id')]),
  audit.addChildren([at(audit, '$id')]),
  page(paths.configuration, () => import('../areas/configuration/ConfigurationPage')),
  draft,
  history.addChildren([
    part(history, 'go-back', reverts, 'GoBack'),
    part(history, '$id', () => import('../areas/history/SetDrawer')),
    part(history, '$id/revert', reverts, 'RevertSet'),
  ]),
  components.addChildren([part(components, '$name', () => import('../areas/components/ComponentDetail'))]),
  page(paths.settings, () => import('../areas/settings/SettingsPage')),
  users.addChildren(drawers(users, usersPage)),
  page(paths.sso, () => import('../areas/sso/SsoPage')),
  cluster.addChildren([
    part(cluster, 'add', () => import('../areas/cluster/AddNode')),
    part(cluster, 'promote', () => import('../areas/cluster/Promote')),
    part(cluster, 'differences/$node/$name', () => import('../areas/cluster/DifferenceRows')),
  ]),
  license.addChildren([part(license, 'install', () => import('../areas/license/Install'))]),
  page(paths.updates, () => import('../areas/updates/UpdatesPage')),
  reference.addChildren([part(reference, '$id', referencePage, 'Detail')]),
  profile.addChildren([
    part(profile, '/', () => import('../areas/profile/Account')),
    part(profile, 'two-factor', () => import('../areas/profile/SecondFactor')),
    profileTokens.addChildren([part(profileTokens, 'new', tokens, 'Create')]),
    part(profile, 'sessions', () => import('../areas/profile/Sessions')),
  ]),
])

export function createAppRouter(queries: QueryClient) {
  return createRouter({
    routeTree: tree,
    context: { queries },
    defaultPreload: 'intent',
    // Search parameters are plain text, and should look like it.
    parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
    stringifySearch: (search) => {
      const text = new URLSearchParams(listSearch(search) as Record<string, string>).toString()
      return text && `?${text}`
    },
    defaultErrorComponent: Broken,
    // Shown while a page's code loads.
    defaultPendingComponent: () => <Waiting height={240} />,
  })
}

function Broken({ error }: ErrorComponentProps) {
  const { t } = useTranslation()
  return (
    <Page title={t('broken')}>
      <FaultNotice
        fault={error}
        action={
          <Button size="compact-sm" variant="default" onClick={() => location.reload()}>
            {t('reload')}
          </Button>
        }
      />
    </Page>
  )
}

function NotFound() {
  const { t } = useTranslation()
  return (
    <Page title={t('notFound')}>
      <p>
        <Link to={paths.overview}>{t('toOverview')}</Link>
      </p>
    </Page>
  )
}
