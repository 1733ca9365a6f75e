import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import https from 'node:https'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type APIRequestContext,
  test as base,
  type ConsoleMessage,
  expect,
  type Locator,
  type Page,
  request,
} from '@playwright/test'
import axe from 'axe-core'
import { type Hands, mouse } from './hands'
import { totp } from './totp'

declare global {
  interface Window {
    axe: typeof axe
  }
}

export const baseURL = process.env.GATEWAY_URL ?? 'https://127.0.0.1:3443'
export const setupToken = process.env.GATEWAY_SETUP_TOKEN ?? ''
export const admin = {
  email: process.env.GATEWAY_ADMIN_EMAIL ?? 'admin@example.com',
  password: process.env.GATEWAY_ADMIN_PASSWORD ?? 'correct horse battery',
}
/** The gateway's host name, which the browser also resolves. */
export const name = 'gw.example.com'
export const launch = {
  executablePath: '/usr/bin/chromium-headless-shell',
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-dev-shm-usage',
    `--host-resolver-rules=MAP ${name} ${new URL(baseURL).host}`,
  ],
}
/** Output folder. Concurrent runs use one each. */
export const results = `test-results/${process.env.GATEWAY_RUN ?? 'one'}`
export const sessionFile = `${results}/session.json`
export const screenshots = '../.cache/screenshots'
export const schemes = ['light', 'dark'] as const
const desk = { width: 1280, height: 800 }
export const sizes = {
  desk,
  /** What remains of the desktop size at 200% zoom. */
  enlarged: { width: desk.width / 2, height: desk.height / 2 },
  phone: { width: 390, height: 844 },
}
/** Whether this is the long run: every scheme and size, and the keyboard as well. */
export const long = process.env.GATEWAY_LONG === '1'

/** How a page is displayed. */
interface Look {
  scheme: (typeof schemes)[number]
  size: { width: number; height: number }
}
const asUsual: Look = { scheme: 'light', size: desk }
const looks: Look[] = schemes.flatMap((scheme) =>
  Object.values(long ? sizes : { desk }).map((size) => ({ scheme, size })),
)

/** Every page behind the login, by the name of its screenshot. */
export const pages = {
  overview: '/',
  interfaces: '/network/interfaces',
  'interface-new': '/network/interfaces/new',
  'interface-adopt': '/network/interfaces/adopt',
  'network-new': '/network/interfaces/network',
  addresses: '/network/addresses',
  'address-new': '/network/addresses/new',
  routes: '/network/routes',
  'route-new': '/network/routes/new',
  'routes-live': '/network/routes/live',
  clients: '/network/clients',
  'proxy-domains': '/proxy/domains',
  'proxy-site-new': '/proxy/domains/new',
  'proxy-backends': '/proxy/backends',
  'proxy-backend-new': '/proxy/backends/new',
  'proxy-routing': '/proxy/routing',
  'proxy-routing-new': '/proxy/routing/new',
  'proxy-statistics': '/proxy/statistics',
  certificates: '/proxy/certificates',
  'certificate-new': '/proxy/certificates/new',
  'certificate-upload': '/proxy/certificates/upload',
  'certificate-providers': '/proxy/certificates/providers',
  'certificate-provider-new': '/proxy/certificates/providers/new',
  'certificate-acme': '/proxy/certificates/acme',
  tunnels: '/vpn/tunnels',
  'tunnel-new': '/vpn/tunnels/new',
  'tunnel-import': '/vpn/tunnels/import',
  'dns-zones': '/services/dns',
  'dns-settings': '/services/dns/settings',
  'dns-statistics': '/services/dns/statistics',
  'dhcp-leases': '/services/dhcp',
  'dhcp-subnet-new': '/services/dhcp/subnets/new',
  'ntp-sources': '/services/ntp',
  'ntp-servers': '/services/ntp/servers',
  'ntp-server-new': '/services/ntp/servers/new',
  'ntp-settings': '/services/ntp/settings',
  'forward-proxy': '/services/forward-proxy',
  'forward-proxy-acl-new': '/services/forward-proxy/new',
  'radius-users': '/services/radius',
  'radius-client-new': '/services/radius/clients/new',
  'radius-test': '/services/radius/test',
  'firewall-rules': '/firewall/rules',
  'firewall-rule-new': '/firewall/rules/new',
  'firewall-nat': '/firewall/nat',
  'firewall-nat-new': '/firewall/nat/new',
  'firewall-port-forward': '/firewall/nat/port-forward',
  'firewall-objects': '/firewall/objects',
  'firewall-object-new': '/firewall/objects/new',
  'firewall-object-groups': '/firewall/objects/groups',
  'firewall-object-group-new': '/firewall/objects/groups/new',
  'firewall-services': '/firewall/services',
  'firewall-service-new': '/firewall/services/new',
  'firewall-service-groups': '/firewall/services/groups',
  'firewall-zones': '/firewall/zones',
  'firewall-zone-new': '/firewall/zones/new',
  'firewall-log': '/firewall/log',
  'firewall-explain':
    '/firewall/explain?in=zone:lan&source=10.10.0.2&destination=10.10.0.1&protocol=tcp&destination_port=443',
  alerts: '/operations/alerts',
  'alert-channels': '/operations/alerts/channels',
  'alert-channel-new': '/operations/alerts/channels/new',
  'alert-muted': '/operations/alerts/muted',
  'alert-mute-new': '/operations/alerts/muted/new',
  'alert-thresholds': '/operations/alerts/thresholds',
  jobs: '/operations/jobs',
  waf: '/security/waf',
  'waf-alerts': '/security/waf/alerts',
  'waf-rules': '/security/waf/rules',
  ids: '/security/ids',
  'ids-ban': '/security/ids/ban',
  'ids-alerts': '/security/ids/alerts',
  'ids-bouncers': '/security/ids/bouncers',
  'ids-collections': '/security/ids/collections',
  'ids-settings': '/security/ids/settings',
  diagnostics: '/operations/diagnostics',
  'diagnostics-path': '/operations/diagnostics/reachability',
  'diagnostics-connections': '/operations/diagnostics/connections',
  'diagnostics-capture': '/operations/diagnostics/capture',
  logs: '/operations/logs',
  'logs-live': '/operations/logs?live=1&sources=api,audit',
  'backup-targets': '/operations/backups/targets',
  'backup-target-new': '/operations/backups/targets/new',
  backups: '/operations/backups',
  configuration: '/operations/configuration',
  draft: '/operations/draft',
  history: '/operations/history',
  'history-back': '/operations/history/go-back',
  audit: '/operations/audit',
  'audit-changes': '/operations/audit?view=changes',
  components: '/system/components',
  'config-preview': '/system/components/ntp',
  settings: '/system/settings',
  users: '/system/users',
  'user-new': '/system/users/new',
  sso: '/system/sso',
  cluster: '/system/cluster',
  'cluster-add': '/system/cluster/add',
  license: '/system/license',
  'license-install': '/system/license/install',
  updates: '/system/updates',
  'api-reference': '/system/api',
  'api-reference-call': '/system/api/ntp~pool~create',
  profile: '/profile',
  'profile-two-factor': '/profile/two-factor',
  'profile-tokens': '/profile/tokens',
  'profile-token-new': '/profile/tokens/new',
  'profile-sessions': '/profile/sessions',
}

/** Counts the clicks on a page from now on, across navigations. The returned function tells the number so far. */
export async function countClicks(page: Page): Promise<() => Promise<number>> {
  await page.addInitScript(() => {
    document.addEventListener(
      'pointerdown',
      () => sessionStorage.setItem('test.clicks', String(Number(sessionStorage.getItem('test.clicks')) + 1)),
      true,
    )
  })
  await page.reload()
  await page.evaluate(() => sessionStorage.setItem('test.clicks', '0'))
  return () => page.evaluate(() => Number(sessionStorage.getItem('test.clicks')))
}

/** Chooses an option in a select. If a filter of the list has the same label, takes the form's select. */
export async function choose(page: Page, label: string, option: string) {
  await page.getByRole('combobox', { name: label }).last().click()
  await page.getByRole('option', { name: option, exact: true }).click()
}

/** Runs a command on the gateway under test. */
export function onGateway(...command: string[]): string {
  const [program, ...prefix] = (process.env.GATEWAY_EXEC ?? '').trim().split(/\s+/)
  if (!program) throw new Error('GATEWAY_EXEC must say how to run a command on the gateway')
  return execFileSync(program, [...prefix, 'gateway', '--', ...command], { cwd: '..', encoding: 'utf8' })
}

/** Knocks until the page shows it: the gateway's log is rate-limited. */
export async function knockUntil(shown: Locator, port: number) {
  await expect(async () => {
    knock(port)
    await expect(shown).toBeVisible({ timeout: 2000 })
  }).toPass()
}

/** Opens a connection that no one answers. The packet filter sees its first packet. */
export function knock(port: number) {
  const socket = net.connect({ host: new URL(baseURL).hostname, port, timeout: 300 })
  socket.on('error', () => {})
  socket.on('timeout', () => socket.destroy())
}

/**
 * Requests a DHCP lease on the browser's machine, which is on the LAN, and fails without one. The machine keeps its own
 * address.
 */
export function askForLease({ link = 'eth0', tries = 20, hostname = '' } = {}) {
  const client = ['udhcpc', '-i', link, '-f', '-n', '-q', '-t', String(tries), '-T', '1', '-s', '/bin/true']
  execFileSync('busybox', hostname ? [...client, '-x', `hostname:${hostname}`] : client, { stdio: 'pipe' })
}

/** Follows the link from a disabled service to its settings, enables it and expects it to be live. */
export async function switchOn(page: Page, label: string, { press, check }: Hands = mouse) {
  await press(page.getByRole('link', { name: 'Go to settings' }))
  await check(page.getByLabel(label))
  await press(page.getByRole('button', { name: 'Save', exact: true }))
  await expectSaved(page)
  await expect(page.getByRole('main').getByText('live', { exact: true })).toBeVisible()
}

/** Issues a license that the gateway under test accepts. */
export function sign(...flags: string[]): string {
  const [program, ...prefix] = (process.env.GATEWAY_LICENSE_SIGN ?? '').trim().split(/\s+/)
  if (!program) throw new Error('GATEWAY_LICENSE_SIGN must say how to sign a license')
  return execFileSync(program, [...prefix, '--plan', 'Standard', ...flags], { encoding: 'utf8' })
}

/** The time some days from now, in the format that the tools take. */
export const inDays = (days: number) => `${new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 19)}Z`

/** A self-signed certificate with its key. */
export function selfMade(name: string, days: number) {
  const subject = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`, '-days', String(days)]
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-noenc', '-keyout', '-', '-out', '-']
  const made = execFileSync('openssl', ['req', '-x509', ...kind, ...subject], { encoding: 'utf8', stdio: 'pipe' })
  const [private_key_pem = '', certificate_pem = ''] = made.match(/-----BEGIN [\s\S]*?-----END .*-----\n/g) ?? []
  return { private_key_pem, certificate_pem }
}

/** Leaves a wg-quick configuration on the gateway, as if someone had made it before installing the gateway. */
export function leaveTunnelFile(name: string) {
  const file = `[Interface]\nPrivateKey = 4MPNOBHIqDe4SWWJFsT9bTrqVCzx7xkJXGNcF1yHbXM=\nAddress = 10.99.9.1/24\nListenPort = 51999
PostUp = touch /tmp/x\n[Peer]\nPublicKey = xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=\nAllowedIPs = 10.99.9.2/32\n`
  onGateway('sh', '-c', 'umask 077; mkdir -p /etc/wireguard; printf %s "$1" > "/etc/wireguard/$0.conf"', name, file)
}

/** Connects a device on the LAN with a peer's configuration, as the WireGuard app would. */
export function connect(link: string, config: string) {
  const setting = (name: string) => new RegExp(`^${name} = (.*)$`, 'm').exec(config)?.[1]?.split(/,\s*/) ?? []
  const ip = (...words: string[]) => execFileSync('ip', words, { stdio: 'pipe' })
  disconnect(link)
  execFileSync('wireguard-go', [link], { stdio: 'ignore' })
  // These settings are for wg-quick; wg rejects them.
  const file = join(mkdtempSync(join(tmpdir(), 'peer-')), `${link}.conf`)
  writeFileSync(file, config.replace(/^(Address|DNS|MTU) = .*\n/gm, ''), { mode: 0o600 })
  execFileSync('wg', ['setconf', link, file])
  for (const address of setting('Address')) ip('address', 'add', address, 'dev', link)
  ip('link', 'set', link, 'up')
  ip('route', 'add', setting('AllowedIPs')[0] ?? '', 'dev', link)
}

/** Deletes an interface on the browser's machine, if it exists. */
export function disconnect(link: string) {
  spawnSync('ip', ['link', 'del', link])
}

/**
 * Creates a pair of interfaces on the gateway, as if they were new ports. Deletes those of an earlier attempt first.
 */
export function plugIn(link: string, far = `${link}-far`) {
  unplug(link)
  onGateway('ip', 'link', 'add', link, 'type', 'veth', 'peer', 'name', far)
}

/** Deletes an interface on the gateway, if it exists. */
export function unplug(link: string) {
  onGateway('sh', '-c', 'ip link del "$0" 2>/dev/null || true', link)
}

/** Only `npm run screenshots` takes the screenshots for the documentation. */
export const takingScreenshots = process.env.GATEWAY_SCREENSHOTS === '1'

/** The session cookie of the administrator from the setup. */
export function sessionCookie(): string {
  const { cookies } = JSON.parse(readFileSync(sessionFile, 'utf8')) as { cookies: { name: string; value: string }[] }
  return cookies.map(({ name, value }) => `${name}=${value}`).join('; ')
}

/** Sends a request as that administrator, over a new connection. */
function anew(method: string, path: string): Promise<{ data: { id: string }[] | null }> {
  const headers = { Cookie: sessionCookie(), Origin: baseURL }
  return new Promise((resolve, reject) => {
    const options = { method, headers, agent: false, rejectUnauthorized: false } as const
    const asked = https.request(new URL(`/api/v1${path}`, baseURL), options, async (answer) => {
      let text = ''
      for await (const part of answer) text += part
      resolve(JSON.parse(text))
    })
    asked.on('error', reject)
    asked.end()
  })
}

/** Confirms pending changes. Until then other changes of the same components would be refused. */
export async function keepChanges() {
  // Before the first login there are no changes.
  if (!existsSync(sessionFile)) return
  const { data } = await anew('GET', '/change-sets/waiting')
  for (const { id } of data ?? []) await anew('POST', `/change-sets/${id}/confirm`)
}

/**
 * Calls the API as the administrator from the setup, for steps that are not under test. Confirms pending changes first.
 */
export async function byAPI<T>(act: (api: APIRequestContext) => Promise<T>, { keep = true } = {}): Promise<T> {
  if (keep) await keepChanges()
  // Allows for a busy machine.
  const options = { baseURL, storageState: sessionFile, ignoreHTTPSErrors: true, timeout: 120_000 }
  const api = await request.newContext(options)
  try {
    return await act(api)
  } finally {
    await api.dispose()
  }
}

/** A row as returned by the API. */
export interface Row {
  id: string
  name: string
  [field: string]: unknown
}

/** Sends a request to the API and returns its data. A refusal fails the test. */
function call<T>(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, data?: object): Promise<T> {
  return byAPI(async (api) => {
    const answer = await api.fetch(`/api/v1${path}`, { method, data })
    const text = await answer.text()
    expect(answer.ok(), `${method} ${path}: ${text}`).toBe(true)
    return text ? JSON.parse(text).data : undefined
  })
}

export const read = <T = Row[]>(path: string) => call<T>('GET', path)
export const make = (path: string, data?: object) => call<Row>('POST', path, data)
export const put = (path: string, data: object) => call<Row>('PUT', path, data)

/** Deletes the rows that have one of these values in any field, or all rows. */
export async function clear(path: string, ...values: string[]) {
  for (const row of await read(path))
    if (values.length === 0 || values.some((value) => Object.values(row).includes(value)))
      await call('DELETE', `${path}/${row.id}`)
}

/** A row to create with a change set. */
export interface NewRow {
  kind: string
  id: string
  body: object
}

/** Creates rows with one change set. */
export const makeAll = (rows: NewRow[]) =>
  call('POST', '/change-sets', { operations: rows.map((row) => ({ verb: 'create', ...row })) })

/** Deletes these rows with one change set. The last row goes first, because it may refer to earlier ones. */
export const clearAll = (rows: NewRow[]) =>
  call('POST', '/change-sets', {
    operations: rows.toReversed().map(({ kind, id }) => ({ verb: 'delete', kind, id })),
  })

/** Creates a user for one test. Deletes an existing one of the same name first. */
export async function makeUser(name: string, role: 'admin' | 'viewer' = 'viewer') {
  const user = { email: `${name}@example.com`, password: `the password of ${name}` }
  await clear('/users', user.email)
  await make('/users', { ...user, name, role })
  return user
}

/** Enrols an authenticator app for a user and returns its secret. The current code is then used up. */
export async function enrol({ email, password }: typeof admin): Promise<string> {
  const api = await request.newContext({ baseURL, ignoreHTTPSErrors: true })
  const post = async (path: string, data?: object) => {
    const answer = await api.post(`/api/v1/auth/${path}`, { data })
    expect(answer.ok(), await answer.text()).toBe(true)
    return (await answer.json()).data
  }
  await post('login', { email, password })
  const { secret } = await post('totp/setup')
  await post('totp/enable', { code: totp(secret) })
  await post('logout')
  await api.dispose()
  return secret
}

/** Enters only the password. The next page shows whether that is enough. */
export async function typePassword(page: Page, { email, password }: typeof admin) {
  await page.goto('/login')
  await page.getByLabel('E-mail').fill(email)
  await page.getByLabel('Password', { exact: true }).fill(password)
  await page.getByRole('button', { name: 'Log in', exact: true }).click()
}

export async function logIn(page: Page, who: typeof admin) {
  await typePassword(page, who)
  await page.waitForURL((url) => url.pathname !== '/login')
}

/** Logs in again, for API calls and later tests: a restore ends all sessions. */
export async function renewSession() {
  const api = await request.newContext({ baseURL, ignoreHTTPSErrors: true })
  const login = () =>
    api.post('/api/v1/auth/login', { data: admin }).then(
      (answer) => answer.status(),
      () => 'away',
    )
  await expect.poll(login, { timeout: 60_000 }).toBe(200)
  await api.storageState({ path: sessionFile })
  await api.dispose()
}

/** Moves a row up by one with the keyboard, relying on what a screen reader would announce. */
export async function moveUp(page: Page, name: string) {
  await page.getByRole('button', { name: `Move ${name}`, exact: true }).focus()
  await page.keyboard.press('Space')
  await expect(page.locator('[data-dragging]')).toBeVisible()
  const said = page.getByRole('status').filter({ hasText: /position \d/ })
  const place = Number(/position (\d+)/.exec((await said.textContent()) ?? '')?.[1])
  await page.keyboard.press('ArrowUp')
  await expect(said).toContainText(`${name} over position ${place - 1} of`)
  await page.keyboard.press('Space')
}

/** Waits until a page has all its content: no placeholders, and no running animations. */
export async function settled(page: Page) {
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
  await expect(page.locator('.mantine-Skeleton-root')).toHaveCount(0)
  await page.evaluate(async () => {
    await document.fonts.ready
    // A new element starts its animation in the next frame.
    for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame)
    const moving = document.getAnimations().filter(({ effect }) => effect?.getComputedTiming().iterations !== Infinity)
    await Promise.allSettled(moving.map(({ finished }) => finished))
  })
}

/** Shows a page in the given scheme and size. */
async function dress(page: Page, { scheme, size }: Look) {
  await page.setViewportSize(size)
  await page.emulateMedia({ colorScheme: scheme })
  await expect(page.locator('html')).toHaveAttribute('data-mantine-color-scheme', scheme)
  await settled(page)
}

/** All violations that axe finds on a page, minor ones included. */
export async function barriers(page: Page) {
  const options: axe.RunOptions = {
    resultTypes: ['violations'],
    // The HTML is enough to identify an element. None of the rules that matter needs the preload.
    selectors: false,
    preload: false,
    elementRef: true,
  }
  // No page has foreign frames, so axe runs in the page itself. It stays loaded until the next document.
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe.source)
  return page.evaluate(async (options) => {
    const { violations } = await window.axe.run(document, options)
    // An open select's list is in a portal outside all regions, which it shares with elements that are hidden now. It
    // belongs to its field.
    const list = '.mantine-Popover-dropdown'
    const opened = ({ element }: axe.NodeResult) =>
      !!element?.closest(list) ||
      (!!element?.matches('[data-portal]') &&
        [...element.children].every((child) => child.matches(list) || !child.textContent))
    const found = violations.map(({ id, nodes }) => ({
      id,
      nodes: nodes.filter((one) => id !== 'region' || !opened(one)),
    }))
    return found
      .filter(({ nodes }) => nodes.length > 0)
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' | ')}`)
  }, options)
}

/** Polls, because a busy machine may still be repainting in the other scheme. Real violations stay. */
export async function expectAccessible(page: Page) {
  await expect.poll(() => barriers(page)).toEqual([])
}

/** Checks that a page works in both schemes, and in the long run in every size. Restores the default at the end. */
export async function expectFit(page: Page) {
  for (const look of looks) {
    await dress(page, look)
    await expectAccessible(page)
    await expectNoSidewaysScroll(page)
  }
  await dress(page, asUsual)
}

/** Waits until a form that stays open is saved. The button is disabled while saving, too. */
export async function expectSaved(page: Page) {
  const save = page.getByRole('button', { name: 'Save', exact: true })
  await expect(save.and(page.locator(':disabled:not([data-loading])'))).toBeVisible()
}

export async function logOut(page: Page) {
  await page.getByRole('button', { name: 'Your account' }).click()
  await page.getByRole('menuitem', { name: 'Log out' }).click()
  await page.waitForURL(/\/login$/)
}

export async function expectNoSidewaysScroll(page: Page) {
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0)
}

interface Fixtures {
  /** Whether to confirm the page's changes automatically. The tests of confirmation do so themselves. */
  keeps: boolean
  kept: undefined
  /** Console errors that a test provokes: an HTTP status, or part of the message. */
  expected: (number | string)[]
  watched: undefined
}

/** Collects what must not happen on a page: console errors, uncaught exceptions and CSP violations. */
export async function watch(page: Page, expected: Fixtures['expected'] = []): Promise<string[]> {
  const problems: string[] = []
  const provoked = (message: ConsoleMessage) =>
    expected.some((one) => message.text().includes(typeof one === 'number' ? `a status of ${one}` : one))
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI, sourceFile }) => {
      console.error(`content security policy: ${violatedDirective} ${blockedURI} ${sourceFile}`)
    })
  })
  page.on('pageerror', (error) => problems.push(String(error)))
  page.on('dialog', (dialog) => {
    if (dialog.type() === 'alert') problems.push(`alert: ${dialog.message()}`)
  })
  page.on('console', (message) => {
    if (message.type() === 'error' && !provoked(message))
      problems.push(`${page.url()} ${message.text()} ${message.location().url}`)
  })
  return problems
}

/** Confirms every change before the page gets its answer, so that the next change is never refused. */
async function keepAll(page: Page) {
  // While the gateway is unreachable there is nothing to confirm.
  await page.exposeFunction('keepChanges', () => keepChanges().catch(() => {}))
  await page.addInitScript(() => {
    const { fetch, keepChanges } = window as unknown as Window & { keepChanges: () => Promise<void> }
    window.fetch = async (input, init) => {
      const answer = await fetch(input, init)
      const method = init?.method ?? (input instanceof Request ? input.method : 'GET')
      if (method !== 'GET') await keepChanges()
      return answer
    }
  })
}

export const test = base.extend<Fixtures>({
  keeps: [true, { option: true }],
  kept: [
    async ({ page, keeps }, use) => {
      if (keeps) await keepAll(page)
      await use(undefined)
      if (keeps) await keepChanges()
    },
    { auto: true },
  ],
  expected: [[], { option: true }],
  watched: [
    async ({ page, expected }, use) => {
      const problems = await watch(page, expected)
      await use(undefined)
      expect(problems).toEqual([])
    },
    { auto: true },
  ],
})

export { expect }
