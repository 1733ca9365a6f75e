import { execFile, execFileSync } from 'node:child_process'
import type { APIRequestContext, Page } from '@playwright/test'
import {
  askForLease,
  byAPI,
  connect,
  enrol,
  expect,
  inDays,
  leaveTunnelFile,
  makeUser,
  onGateway,
  pages,
  schemes,
  screenshots,
  selfMade,
  settled,
  sign,
  test,
  typePassword,
} from './gateway'
import { found, search } from './waf'

interface Site {
  id: string
  name: string
}

const sizes = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } }
let anna = { email: '', password: '' }
/** The pages of rows created here, by the name of their screenshot. */
const made: Record<string, string> = {
  'proxy-domain': '',
  'proxy-backend': '',
  tunnel: '',
  'tunnel-client': '',
  'tunnel-peer-new': '',
  'tunnel-peer-config': '',
  'dns-zone': '',
  'dns-record': '',
  'dhcp-reservations': '/services/dhcp/reservations',
  'forward-proxy-statistics': '/services/forward-proxy/statistics',
  'radius-log-ins': '/services/radius/log-ins',
  'waf-domain': '',
  'waf-alert': '',
  'ids-alert': '',
}

/** Visits the sites, resolves names and uses the proxy, so that the statistics have something to show. */
let traffic: ReturnType<typeof setInterval> | undefined
test.afterAll(() => clearInterval(traffic))
function visit() {
  const here = ['-sko', '/dev/null', '--resolve', 'www.example.net:443:10.10.0.1']
  for (const path of ['/', '/login', '/wiki/']) execFile('curl', [...here, `https://www.example.net${path}`])
  for (const name of ['www', 'mail', 'intranet'])
    execFile('dig', ['+tries=1', '@10.10.0.1', `${name}.corp.example.net`])
  const outside = `${process.env.GATEWAY_OIDC_ISSUER}/.well-known/openid-configuration`
  execFile('curl', ['-sko', '/dev/null', '-x', 'http://10.10.0.1:3128', outside])
  execFile('busybox', ['ping', '-c', '1', '-W', '1', '-s', '1200', '10.8.0.1'])
}

// Screenshots look better on a console in use.
test.beforeAll(async () => {
  anna = await makeUser('anna', 'admin')
  await enrol(anna)
  await makeUser('ben')
  await byAPI(async (api) => {
    await api.post('/api/v1/api-tokens', { data: { name: 'inventory', role: 'viewer', expires_at: inDays(90) } })
    await api.post('/api/v1/api-tokens', { data: { name: 'terraform', role: 'admin', expires_at: null } })
    const make = async (path: string, data: object) =>
      (await (await api.post(`/api/v1${path}`, { data })).json()).data.id
    // Alert channels, and an open alert: every disk is at least one percent full.
    const smtp = { smtp_host: '10.10.0.2', smtp_port: 587, from: 'gateway@example.com', use_tls: true }
    await make('/alerts', { name: 'On call', kind: 'email', target: 'oncall@example.com', settings: smtp })
    await make('/alerts', { kind: 'webhook', target: 'http://10.10.0.2:9/hook', min_severity: 'error' })
    await make('/alert-mutes', { kind: 'ntp.unsync', until: inDays(7), reason: 'The time servers move' })
    await api.put('/api/v1/alerts/settings', { data: { disk_warning_percent: 1 } })
    await api.post('/api/v1/system/jobs/watch.machine/run')
    // Some network behind the gateway: bridges, a virtual address, and an unmanaged address.
    for (const port of ['port1', 'port2', 'port3']) {
      onGateway('ip', 'link', 'add', port, 'type', 'veth', 'peer', 'name', `${port}-far`)
      onGateway('ip', 'link', 'set', port, 'up')
    }
    for (const far of ['port1-far', 'port3-far']) onGateway('ip', 'link', 'set', far, 'up')
    onGateway('ip', 'address', 'add', '10.99.0.5/24', 'dev', 'wan0')
    await make('/firewall/zones', { name: 'guest', description: 'Visitors' })
    const bridge = {
      name: 'br-office',
      type: 'bridge',
      role: 'lan',
      members: ['port1', 'port2'],
      description: 'Office',
    }
    const office = await make('/network-interfaces', bridge)
    const visitors = { name: 'br-guest', type: 'bridge', role: 'guest', members: ['port3'], description: 'Guest Wi-Fi' }
    const guest = await make('/network-interfaces', visitors)
    await make('/ip-addresses', { interface_id: office, address: '10.20.0.1', prefix: 24 })
    await make('/ip-addresses', { interface_id: office, address: '10.20.0.254', prefix: 24, is_vip: true })
    await make('/ip-addresses', { interface_id: guest, address: '10.30.0.1', prefix: 24 })
    await make('/ip-addresses', { interface_id: guest, address: '2001:db8:30:ffff:1111:2222:3333:4444', prefix: 64 })
    await make('/routes', { destination: '10.40.0.0/16', gateway: '10.20.0.2', comment: 'The branch in Bern' })
    // A policy with some history: objects, rules with labels, a port forward, and dropped packets.
    const printers = await make('/firewall/address-objects', {
      name: 'Printers',
      kind: 'range',
      value: '10.10.0.200-10.10.0.220',
    })
    const backup = await make('/firewall/address-objects', { name: 'Backup host', kind: 'host', value: '10.20.0.9' })
    await make('/firewall/address-objects', { name: 'Bern', kind: 'network', value: '10.40.0.0/16' })
    await make('/firewall/address-objects', { name: 'Package mirror', kind: 'fqdn', value: 'wan.lab.internal' })
    const quiet = await make('/firewall/address-groups', { name: 'No internet', members: [printers, backup] })
    const ipp = await make('/firewall/services', { name: 'IPP', protocol: 'tcp', port_start: 631 })
    const rule = (data: object) => make('/firewall/rules', { action: 'accept', ...data })
    await rule({
      name: 'Printers stay inside',
      src_zone: 'lan',
      src_kind: 'group',
      src_group_id: quiet,
      dst_zone: 'wan',
      action: 'reject',
      log: true,
      labels: ['devices'],
    })
    await rule({
      name: 'Guests may print',
      src_zone: 'guest',
      dst_zone: 'lan',
      dst_kind: 'object',
      dst_object_id: printers,
      service_object_id: ipp,
      labels: ['guest', 'devices'],
    })
    await rule({ name: 'Guests to the internet', src_zone: 'guest', dst_zone: 'wan', labels: ['guest'] })
    await rule({
      name: 'Ping from inside',
      src_zone: 'lan',
      dst_zone: 'self',
      service_group_id: '00000000-0000-7000-8000-000000000305',
    })
    await make('/nat-rules', {
      name: 'Mail to the inside',
      kind: 'dnat',
      in_zone: 'wan',
      protocol: 'tcp',
      dst_port: 25,
      target_address: '10.20.0.25',
      target_port: 2525,
    })
    for (const port of [23, 445, 1433, 8080, 8444])
      await fetch(`http://10.10.0.1:${port}`, { signal: AbortSignal.timeout(200) }).catch(() => {})
    // Some sites: a healthy one, one with half of its servers down, and one that is closed.
    const pool = async (name: string, servers: [string, number][]) => {
      const backend_id = await make('/backends', { name, scheme: 'https' })
      for (const [index, [address, port]] of servers.entries())
        await make('/backend-servers', { backend_id, name: `${name.toLowerCase()}-${index + 1}`, address, port })
      return backend_id
    }
    const shop = await pool('Shop', [
      ['10.10.0.1', 3443],
      ['10.10.0.99', 8080],
    ])
    const wiki = await pool('Wiki', [['10.10.0.99', 8090]])
    const main = await make('/domains', {
      name: 'www.example.net',
      backend_id: shop,
      www_redirect: 'to_www',
      hsts_enabled: true,
      rate_limit_enabled: true,
      max_body_size_bytes: 26_214_400,
      notes: 'Ask Anna before closing it.',
    })
    await make('/domains', { name: '*.shops.example.net', backend_id: shop, http_to_https: false })
    const pages = await make('/domains', { name: 'wiki.example.net', backend_id: wiki, maintenance: true })
    await attacks(api, { id: main, name: 'www.example.net' }, { id: pages, name: 'wiki.example.net' })
    for (const [name, value] of Object.entries({ 'X-Frame-Options': 'DENY', 'Referrer-Policy': 'same-origin' }))
      await make(`/domains/${main}/headers`, { name, value })
    for (const path_prefix of ['/wiki', '/wiki/images', '/old'])
      await make('/routing-rules', { domain_id: main, backend_id: wiki, path_prefix, strip_prefix: true })
    await make('/dns-providers', {
      name: 'Our name server',
      kind: 'rfc2136',
      server: 'ns1.example.net',
      username: 'acme',
      secret: 'c2VjcmV0IG9mIHRoZSBleGFtcGxl',
      zones: ['example.net'],
    })
    await make('/certificates', { source: 'uploaded', ...selfMade('wiki.example.net', 40) })
    await make('/certificates', { source: 'uploaded', ...selfMade('*.shops.example.net', 9) })
    await tunnels(api, make)
    await services(api, make)
    await intruders(api)
    traffic = setInterval(visit, 1000)
    made['proxy-domain'] = `/proxy/domains/${main}`
    made['proxy-backend'] = `/proxy/backends/${shop}`
    // This server answers in the lab, and the clock follows it.
    await api.post('/api/v1/ntp/pools', { data: { kind: 'server', address: '198.51.100.2', prefer: true } })
    await expect
      .poll(async () => (await (await api.get('/api/v1/ntp/status')).json()).data.synchronised, { timeout: 20_000 })
      .toBe(true)
      .catch(() => {})
  })
})

/** A server with road warriors, another site and a peer with warnings, and a provider that does not answer. */
async function tunnels(api: APIRequestContext, make: (path: string, data: object) => Promise<string>) {
  const server = { name: 'wg0', address_cidr: '10.8.0.1/24,fd00:8::1/64', endpoint_host: '10.10.0.1' }
  const id = await make('/tunnel/interfaces', { ...server, client_routes: '10.20.0.0/16', dns: '10.8.0.1' })
  const peer = (name: string, more = {}) => make('/peers', { interface_id: id, name, keepalive: 25, ...more })
  const phone = await peer("Anna's phone")
  await peer("Ben's laptop")
  await peer('Tablet in the workshop', { active: false })
  const public_key = 'xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg='
  const branch = { allowed_ips: '10.8.0.9/32,10.60.0.0/16', endpoint: '198.51.100.40:51820', public_key }
  await peer('Branch in Basel', branch)
  connect('phone0', await (await api.get(`/api/v1/peers/${phone}/config`)).text())
  const provider = await make('/tunnel/interfaces', {
    name: 'provider',
    mode: 'client',
    address_cidr: '10.64.0.7/32',
    upstream_public_key: public_key,
    upstream_endpoint: '198.51.100.9:51820',
    upstream_allowed_ips: '10.64.0.0/16',
  })
  leaveTunnelFile('warehouse')
  made.tunnel = `/vpn/tunnels/${id}`
  made['tunnel-client'] = `/vpn/tunnels/${provider}`
  made['tunnel-peer-new'] = `/vpn/tunnels/${id}/new`
  made['tunnel-peer-config'] = `/vpn/tunnels/${id}/${phone}/config`
}

/** A shop under attack, and a wiki whose readers look like attackers. */
async function attacks(api: APIRequestContext, shop: Site, wiki: Site) {
  const set = (id: string, data: object) =>
    api.put(`/api/v1/waf/configs/${id}`, { data: { enabled: true, fail_open: true, ...data } })
  await set(shop.id, { mode: 'blocking' })
  const note = 'Authors paste HTML into the editor.'
  const exclusions = [{ rule_id: 941100, path: '/edit', variable: 'ARGS', parameter: 'text', note }]
  const rule_exclusions = [920350]
  const exclusion_notes = { 920350: 'Monitoring asks by address.' }
  await set(wiki.id, { paranoia_level: 2, exclusions, rule_exclusions, exclusion_notes })
  const paths = ['/admin/../../etc/passwd', '/index.php?page=../../../../etc/passwd', '/.env']
  for (let hour = 23; hour > 0; hour -= 1) {
    const often = [3, 4, 11, 12, 13].includes(hour) ? 3 : 1
    for (let index = 0; index < often; index++) {
      const rules = [{ rule_id: 930120, message: 'OS File Access Attempt' }]
      const uri = paths[(hour + index) % paths.length] ?? '/'
      found({ domain: shop, client: `203.0.113.${hour % 5}`, uri, rules, ago: hour - index / 4 })
    }
    if (hour % 4 === 0) search(wiki, `198.51.100.${hour}`, { action: 'detected', ago: hour })
  }
  const reference = search(wiki, '2001:db8:30:ffff:1111:2222:3333:4444', { action: 'detected' })
  const answer = await api.get('/api/v1/waf/alerts', { params: { q: reference, rule_id: 942100 } })
  made['waf-alert'] = `/security/waf/alerts/${(await answer.json()).data[0].id}`
  made['waf-domain'] = `/security/waf/domains/${wiki.id}`
}

/** Failed logins until CrowdSec notices, and a ban by an operator. */
async function intruders(api: APIRequestContext) {
  const get = async (path: string) => (await (await api.get(`/api/v1/ids/${path}`)).json()).data
  const allow_list = [{ cidr: '203.0.113.0/24', note: 'Office in Bern' }]
  await api.put('/api/v1/ids/settings', { data: { enabled: true, allow_list } })
  const from = ['198.51.100.66', '2001:db8:1::67']
  const tried = from.flatMap((address) =>
    [...Array(8).keys()].map((n) => `Failed password for root from ${address} port ${40_000 + n} ssh2`),
  )
  await expect
    .poll(
      async () => {
        const at = new Date().toString().slice(4, 10) + new Date().toISOString().slice(10, 19).replace('T', ' ')
        const lines = tried.map((line) => `${at} gateway sshd[4711]: ${line}`).join('\n')
        onGateway('sh', '-c', `echo "${lines}" >> /var/log/auth.log`)
        return (await get('alerts')).alerts.length
      },
      { intervals: [2000], timeout: 120_000 },
    )
    .toBeGreaterThan(1)
  await api.post('/api/v1/ids/decisions', { data: { value: '192.0.2.77', duration: '7d', reason: 'Scans for weeks' } })
  await api.post('/api/v1/ids/bouncers', { data: { name: 'edge-proxy' } })
  const found = (await get('alerts')).alerts.find(({ value }: { value: string }) => from.includes(value))
  made['ids-alert'] = `/security/ids/alerts/${found.id}`
}

/** Local names, a network with DHCP clients, an access list, and people who log in. */
async function services(api: APIRequestContext, make: (path: string, data: object) => Promise<string>) {
  const set = (path: string, data: object) => api.put(`/api/v1${path}`, { data })
  await set('/dns/settings', { listen_addresses: ['127.0.0.1', '10.10.0.1'] })
  const zone_id = await make('/dns/zones', { name: 'corp.example.net', description: 'The office' })
  await make('/dns/zones', { name: 'branch.example.net', forward_to: ['10.40.0.53'], description: 'Bern has its own' })
  const record = (name: string, type: string, value: string, more = {}) =>
    make('/dns/records', { zone_id, name, type, value, ...more })
  await record('@', 'MX', 'mail.corp.example.net', { priority: 10 })
  await record('@', 'TXT', 'v=spf1 mx -all')
  await record('www', 'A', '10.20.0.80')
  await record('mail', 'A', '10.20.0.25')
  await record('intranet', 'CNAME', 'www.corp.example.net')
  const phone = await record('_sip._tcp', 'SRV', 'mail.corp.example.net', { priority: 10, weight: 5, port: 5060 })
  made['dns-zone'] = `/services/dns/zones/${zone_id}`
  made['dns-record'] = `/services/dns/zones/${zone_id}/${phone}`

  const range = { range_start: '10.10.0.128', range_end: '10.10.0.254', gateway: '10.10.0.1' }
  const subnet_id = await make('/dhcp/subnets', { interface: 'lan0', cidr: '10.10.0.0/24', ...range })
  await make('/dhcp/reservations', { subnet_id, mac: '52:54:00:12:34:56', ip: '10.10.0.50', hostname: 'printer' })
  await set('/dhcp/settings', { enabled: true })
  for (const [index, name] of ['anna-laptop', 'ben-phone', 'tv'].entries()) {
    const address = `52:54:00:00:10:0${index}`
    execFileSync('ip', ['link', 'add', name, 'link', 'eth0', 'address', address, 'type', 'macvlan', 'mode', 'bridge'])
    execFileSync('ip', ['link', 'set', name, 'up'])
    askForLease({ link: name, hostname: name, tries: 5 })
    execFileSync('ip', ['link', 'delete', name])
  }

  const acl = (name: string, type: string, value: string, action: string) =>
    make('/forward-proxy/acls', { name, type, value, action })
  await acl('Updates', 'dstdomain', '.debian.org .windowsupdate.com', 'allow')
  await acl('No social media at work', 'dstdomain', '.facebook.com .instagram.com .tiktok.com', 'deny')
  await acl('Programs', 'url_regex', '\\.(exe|msi|dmg)$', 'deny')
  await set('/forward-proxy/settings', { enabled: true })

  await make('/radius/clients', { name: 'switch-1', address: '10.10.0.2', secret: 'the secret of the switch' })
  const vlan = { 'Tunnel-Private-Group-Id': '20', 'Session-Timeout': 28_800 }
  await make('/radius/users', { name: 'anna', password: 'the password of anna', reply_attributes: vlan })
  await make('/radius/users', { name: 'phone-3', password: 'the password of phone-3' })
  await set('/radius/settings', { enabled: true })
  const features = ['cluster', 'ids', 'waf'].flatMap((name) => ['--feature', name])
  const limits = ['--nodes', '2', '--domains', '5', '--tunnel-peers', '50']
  const key = sign('--subject', 'Example Trading Ltd', ...limits, ...features, '--not-after', inDays(300))
  await set('/license/key', { key })
  for (const name of ['anna', 'phone-3', 'eve'])
    await api.post('/api/v1/radius/test', { data: { name, password: `the password of ${name}`, method: 'pap' } })
}

/** Screens that take a step or two to reach. */
const further: Record<string, (page: Page) => Promise<void>> = {
  'login-second': async (page) => {
    await page.context().clearCookies()
    await typePassword(page, anna)
    await expect(page.getByLabel('Code', { exact: true })).toBeVisible()
  },
  ...Object.fromEntries(
    Object.keys(made).map((name) => [name, async (page: Page) => void (await page.goto(made[name] ?? '/'))]),
  ),
  'waf-proposal': async (page) => {
    await page.goto(made['waf-alert'] ?? '/')
    await page.getByRole('button', { name: /^This was legitimate/ }).click()
    const note = page.getByLabel('Why was it legitimate?')
    await note.fill('People search for SQL in the documentation.')
    await note.scrollIntoViewIfNeeded()
  },
  'profile-app-setup': async (page) => {
    await page.goto('/profile/two-factor')
    await page.getByRole('button', { name: 'Set up an app' }).click()
    await expect(page.getByRole('img', { name: 'QR code' })).toBeVisible()
  },
}

for (const colorScheme of schemes) {
  for (const [device, viewport] of Object.entries(sizes)) {
    test.describe(`${colorScheme} ${device}`, () => {
      test.use({ colorScheme, viewport })
      const suffix = device === 'phone' ? '-phone' : ''
      const take = async (page: Page, name: string) => {
        await settled(page)
        await page.screenshot({ path: `${screenshots}/${name}-${colorScheme}${suffix}.png` })
      }
      for (const [name, path] of Object.entries({ ...pages, login: '/login' })) {
        test(name, async ({ page }) => {
          await page.goto(path)
          // The charts of the overview need a few samples before they show anything.
          if (name === 'overview') await page.waitForTimeout(10_000)
          await take(page, name)
        })
      }
      for (const [name, go] of Object.entries(further)) {
        test(name, async ({ page }) => {
          await go(page)
          await take(page, name)
        })
      }
    })
  }
}
