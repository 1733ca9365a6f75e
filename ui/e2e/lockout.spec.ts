import net from 'node:net'
import { type Browser, chromium, type Page } from '@playwright/test'
import {
  admin,
  byAPI,
  choose,
  clear,
  connect,
  disconnect,
  expect,
  launch,
  logIn,
  make,
  name,
  onGateway,
  type Row,
  read,
  sessionCookie,
  test,
} from './gateway'

// The browser is on the LAN. Each test makes a change that cuts it off, no one confirms it, and afterwards everything
// is as before.
test.describe.configure({ mode: 'serial' })
// A browser that was cut off before the answer retries afterwards, and learns that the row has changed.
test.use({ keeps: false, expected: ['net::ERR_', 'WebSocket connection', 412] })

const lan = { host: '10.10.0.1', port: 3443 }
/** A server beyond the gateway: the identity provider of the tests. */
const beyond = { host: '198.51.100.2', port: 9000 }

interface Stored {
  id: string
  state: string
  confirm_by: string
  created_at: string
  reason: string
  reverted_by?: string
}

/** Calls the API on the gateway itself, which nothing cuts off. */
function inside<T>(path: string): T {
  const words = ['-sk', '-m', '20', '-H', `Cookie: ${sessionCookie()}`, `https://127.0.0.1:3443/api/v1${path}`]
  return JSON.parse(onGateway('curl', ...words)).data
}
const waiting = () => inside<{ id: string }[]>('/change-sets/waiting')
const stored = (id: string) => inside<Stored>(`/change-sets/${id}`)

async function idOf(path: string, which: (row: Row) => boolean) {
  const row = (await read(path)).find(which)
  expect(row, path).toBeTruthy()
  return row?.id
}

/** Whether a new connection succeeds. */
const reaches = (where: typeof lan) =>
  new Promise<boolean>((resolve) => {
    const socket = net.connect({ ...where, timeout: 1000 })
    const end = (there: boolean) => {
      socket.destroy()
      resolve(there)
    }
    socket.on('connect', () => end(true))
    socket.on('timeout', () => end(false))
    socket.on('error', () => end(false))
  })

const commands = [
  'nft -s list ruleset',
  'ip -br link',
  'ip -br address',
  'ip route show table all',
  'ip -6 route show table main',
  'ss -Hltn sport = :3443 or sport = :443 or sport = :80',
]
const places = ['haproxy', 'nftables.d', 'gateway', 'wireguard', 'systemd/network', 'chrony/conf.d']
/** Output that differs without a change: counters, lifetimes, and the queues of listening sockets. */
const volatile =
  /packets \d+ bytes \d+| expires [0-9smh]+|valid_lft \S+|preferred_lft \S+|@if\d+|^LISTEN +\d+ +\d+ +| +$/gm

/** A chain, set or map of a table. Their order does not matter, but that of the rules in them does. */
const part = /^\t(?:chain|set|map) .*?^\t}\n+/gms

/** Everything that the gateway runs with: the kernel's state, and the configuration files. */
function state(): string {
  const kernel = commands.map((words) => {
    const said = `${onGateway(...words.split(' ')).replaceAll(volatile, '')}\n`
    const parts = (said.match(part) ?? []).map((one) => one.trim()).sort()
    return [`# ${words}`, said.replaceAll(part, ''), ...parts].join('\n')
  })
  const files = onGateway(
    'sh',
    '-c',
    `cd /etc; for place in ${places.join(' ')}; do test -d $place && find $place -type f; done | sort | xargs sha256sum`,
  )
  return [...kernel, files].join('\n')
}

const save = (page: Page) => page.getByRole('button', { name: 'Save', exact: true }).click()
/** Checks that the deadline is shown without opening anything, and shortens it from 60 to 20 seconds. */
async function shorten(page: Page) {
  await expect(page.getByText('Reverts unless you confirm within 60 s')).toBeVisible()
  await page.getByRole('button', { name: /^Reason and confirmation/ }).click()
  await page.getByLabel('Seconds to confirm').fill('20')
}

/** Saves despite the warning that this connection will be cut off. */
async function saveAnyway(page: Page) {
  await save(page)
  await expect(page.getByRole('alert')).toContainText('cut off your connection')
  await page.getByRole('button', { name: 'Save anyway' }).click()
}

/** Expects an unconfirmed change to cut off the operator, and then to be reverted. */
async function expectBack(where: typeof lan, before: string) {
  let id = ''
  await expect.poll(() => (id = waiting()[0]?.id ?? '')).not.toBe('')
  let cut = false
  while (!cut && stored(id).state === 'waiting') cut = !(await reaches(where))
  expect(cut, 'the change cuts the operator off').toBe(true)
  await expect.poll(() => stored(id).state).toBe('taken_back')
  await expect.poll(() => reaches(where)).toBe(true)
  const { confirm_by, reverted_by = '' } = stored(id)
  const back = stored(reverted_by)
  expect(back.reason).toBe('It was not confirmed in time.')
  const late = Date.parse(back.created_at) - Date.parse(confirm_by)
  // Timers and a clock that is being adjusted may differ a little.
  expect(late, 'nothing goes back before its time').toBeGreaterThanOrEqual(-100)
  console.log(`${test.info().title}: taken back ${late} ms after the deadline`)
  // IPv6 addresses need a moment for duplicate address detection.
  await expect.poll(state).toBe(before)
}

/**
 * Waits until no change is pending, the operator can connect, and HAProxy alone has the console's port. Returns the
 * state.
 */
async function calm() {
  await expect.poll(waiting).toEqual([])
  await expect.poll(() => reaches(lan)).toBe(true)
  let now = ''
  await expect.poll(() => (now = state())).not.toContain('*:3443')
  return now
}

/** The operator can use the console again, over new connections: those that were cut off take longer to recover. */
async function expectConsole(browser: Browser, page: Page) {
  const storageState = await page.context().storageState()
  const context = await browser.newContext({ storageState, ignoreHTTPSErrors: true })
  const fresh = await context.newPage()
  await expect(async () => {
    await fresh.goto(new URL('/operations/history', page.url()).href)
    await expect(fresh.getByRole('table', { name: 'Changes' })).toContainText('It was not confirmed in time.')
  }).toPass()
  await context.close()
}

/** Deletes what the tests below create and a failed attempt may leave behind. */
async function clean() {
  disconnect('operator0')
  await clear('/tunnel/interfaces', 'wg-lockout', 'wg-operator')
}
test.beforeAll(clean)
test.afterAll(clean)

test('a rule that blocks the way through', async ({ browser, page }) => {
  const id = await idOf('/firewall/rules', (rule) => rule.src_zone === 'lan' && rule.dst_zone === 'wan')
  const before = await calm()
  expect(await reaches(beyond)).toBe(true)
  await page.goto(`/firewall/rules/${id}`)
  await page.getByText('Drop', { exact: true }).click()
  await shorten(page)
  await save(page)
  await expectBack(beyond, before)
  await expectConsole(browser, page)
})

test("a NAT rule that takes the console's port", async () => {
  const before = await calm()
  // This operator uses the console by its name, on the port that all sites share.
  const browser = await chromium.launch({
    ...launch,
    args: [...launch.args.slice(0, -1), `--host-resolver-rules=MAP ${name} ${lan.host}`],
  })
  const context = await browser.newContext({ baseURL: `https://${name}`, ignoreHTTPSErrors: true })
  const page = await context.newPage()
  await logIn(page, admin)
  await page.goto('/firewall/nat/new')
  await page.getByRole('radio', { name: /^Port forward/ }).check()
  await page.getByLabel('Name').fill('taken')
  await choose(page, 'From zone', 'lan')
  await page.getByText('TCP', { exact: true }).click()
  await page.getByLabel('Port', { exact: true }).fill('443')
  await page.getByLabel('Target address').fill('10.10.0.77')
  await page.getByLabel('Redirect management ports').check({ force: true })
  await shorten(page)
  await saveAnyway(page)
  await expectBack({ ...lan, port: 443 }, before)
  await expectConsole(browser, page)
  await browser.close()
})

test('an interface that is turned off', async ({ browser, page }) => {
  const id = await idOf('/network-interfaces', ({ name }) => name === 'lan0')
  const before = await calm()
  await page.goto(`/network/interfaces/${id}`)
  await page.getByRole('switch', { name: /^On When off/ }).uncheck({ force: true })
  await shorten(page)
  await saveAnyway(page)
  await expectBack(lan, before)
  await expectConsole(browser, page)
})

test('a wrong address', async ({ browser, page }) => {
  const id = await idOf('/ip-addresses', ({ address }) => address === lan.host)
  const before = await calm()
  await page.goto(`/network/addresses/${id}`)
  await page.getByRole('textbox', { name: 'Address', exact: true }).fill('10.10.7.1')
  await shorten(page)
  await saveAnyway(page)
  await expectBack(lan, before)
  await expectConsole(browser, page)
})

test("a tunnel whose peer has the operator's address", async ({ browser, page }) => {
  const tunnel = await make('/tunnel/interfaces', { name: 'wg-lockout', address_cidr: '10.88.0.1/24' })
  const before = await calm()
  await page.goto(`/vpn/tunnels/${tunnel.id}`)
  await page.getByRole('link', { name: 'Add a peer' }).click()
  const form = page.getByRole('dialog')
  await form.getByLabel('Name').fill('greedy')
  await form.getByRole('combobox', { name: 'Address in the tunnel' }).fill('10.10.0.2/32')
  await shorten(page)
  await saveAnyway(page)
  await expectBack(lan, before)
  await expectConsole(browser, page)
  await page.close() // it still polls the tunnel
  await clear('/tunnel/interfaces', 'wg-lockout')
})

test('the peer that the operator uses', async ({ browser }) => {
  const tunnel = await make('/tunnel/interfaces', {
    name: 'wg-operator',
    address_cidr: '10.89.0.1/24',
    endpoint_host: lan.host,
    client_routes: '10.89.0.0/24',
  })
  const peer = await make(`/tunnel/interfaces/${tunnel.id}/peers`, { name: 'operator', keepalive: 1 })
  connect('operator0', await byAPI(async (api) => (await api.get(`/api/v1/peers/${peer.id}/config`)).text()))
  const inside = { host: '10.89.0.1', port: 3443 }
  await expect.poll(() => reaches(inside)).toBe(true)
  const before = await calm()
  const context = await browser.newContext({
    baseURL: `https://${inside.host}:${inside.port}`,
    ignoreHTTPSErrors: true,
  })
  const page = await context.newPage()
  // The browser aborts loading when it notices the new interface.
  await expect(() => logIn(page, admin)).toPass()
  await page.goto(`/vpn/tunnels/${tunnel.id}/${peer.id}`)
  await page.getByRole('dialog').getByRole('switch').uncheck({ force: true })
  await shorten(page)
  await saveAnyway(page)
  await expectBack(inside, before)
  await expectConsole(browser, page)
  await context.close()
  await clean()
})

test('IPv6 while the operator uses it', async ({ browser, page }) => {
  await make('/system/ipv6', { enabled: true })
  const six = { host: 'fd00:10::1', port: 3443 }
  await expect.poll(() => reaches(six)).toBe(true)
  const context = await browser.newContext({ baseURL: `https://[${six.host}]:${six.port}`, ignoreHTTPSErrors: true })
  const sixth = await context.newPage()
  await logIn(sixth, admin)
  await sixth.goto('/system/settings')
  // The switch changes when the gateway has stored the change.
  const flag = (page: Page) => page.getByRole('switch', { name: /^IPv6/ })
  const press = (page: Page) => flag(page).click({ force: true })
  const question = sixth.getByRole('dialog', { name: 'Turn off IPv6?' })
  await press(sixth)
  await expect(question).toContainText('cut off your connection')
  await question.getByRole('button', { name: 'Cancel' }).click()
  await expect(question).toBeHidden()
  await expect(flag(sixth)).toBeChecked()
  expect(await reaches(six)).toBe(true)

  const before = await calm()
  await press(sixth)
  await question.getByRole('button', { name: 'Turn off anyway' }).click()
  await expect.poll(() => reaches(six)).toBe(false)
  const id = waiting()[0]?.id
  await byAPI((api) => api.post(`/api/v1/change-sets/${id}/discard`), { keep: false })
  await expect.poll(() => reaches(six)).toBe(true)
  await expect.poll(state).toBe(before)
  await context.close()

  // Over IPv4 there is no question, and the change can be kept.
  await page.goto('/system/settings')
  for (const there of [false, true]) {
    await expect(flag(page)).toBeChecked({ checked: !there })
    await expect(flag(page)).toBeEnabled()
    await press(page)
    await expect.poll(() => reaches(six)).toBe(there)
    await page.getByRole('button', { name: 'Keep', exact: true }).click()
    await expect.poll(waiting).toEqual([])
  }
})

test('a wrong route', async ({ browser, page }) => {
  const before = await calm()
  await page.goto('/network/routes/new')
  await page.getByLabel('Destination').fill('10.10.0.2/32')
  await page.getByLabel('Next hop').fill(beyond.host)
  await shorten(page)
  await saveAnyway(page)
  await expectBack(lan, before)
  await expectConsole(browser, page)
})
