import { execFileSync } from 'node:child_process'
import type { Locator, Page } from '@playwright/test'
import {
  askForLease,
  choose,
  clear,
  expect,
  expectAccessible,
  expectSaved,
  moveUp,
  onGateway,
  put,
  read,
  switchOn,
  test,
} from './gateway'

// Each test continues where the previous one stopped.
test.describe.configure({ mode: 'serial' })

const zone = 'corp.example.net'
const row = (where: Page | Locator, text: string) => where.getByRole('row').filter({ hasText: text })
const form = (page: Page) => page.getByRole('dialog')
const save = (where: Page | Locator) => where.getByRole('button', { name: 'Save', exact: true }).click()

/** What the API has stored, whatever the page shows. */
const stored = (path: string) => read<Record<string, unknown>[]>(path)

/** Restores what an installation has: every service off and empty. */
async function clean() {
  const kinds = ['/dns/zones', '/dhcp/subnets', '/forward-proxy/acls', '/radius/clients', '/radius/users']
  for (const path of kinds) await clear(path)
  await put('/dns/settings', { listen_addresses: ['127.0.0.1', '::1'] })
  for (const service of ['dhcp', 'forward-proxy', 'radius']) await put(`/${service}/settings`, { enabled: false })
}
test.beforeAll(clean)
test.afterAll(clean)

test.describe('a zone', () => {
  test.use({ expected: [400] })

  test('is created, and its form has the fields of each record type', async ({ page }) => {
    await page.goto('/services/dns')
    await page.getByRole('link', { name: 'Add a zone' }).click()
    await form(page).getByRole('textbox', { name: 'Name', exact: true }).fill(zone)
    await save(form(page))
    await expect(page).toHaveURL(/\/services\/dns\/zones\/[^/]+$/)
    await expect(page.getByRole('heading', { name: zone })).toBeVisible()

    await page.getByRole('link', { name: 'Add a record' }).click()
    await choose(page, 'Type', 'SRV: host and port of a service')
    await form(page).getByLabel('Name').fill('_sip._tcp')
    await expect(form(page)).toContainText(`Full name: _sip._tcp.${zone}`)
    await form(page).getByLabel('Value').fill('sip.corp.example.net')
    await form(page).getByLabel('Priority').fill('10')
    await form(page).getByLabel('Weight').fill('5')
    await form(page).getByLabel('Port').fill('5060')
    await choose(page, 'Type', 'A: IPv4 address')
    await expect(form(page).getByLabel('Weight')).toHaveCount(0)
    await form(page).getByLabel('Name').fill('www')
    await save(form(page))
    await expect(form(page).getByLabel('Value')).toHaveAttribute('aria-invalid', 'true')
    await form(page).getByLabel('Value').fill('192.0.2.10')
    await expectAccessible(page)
    await save(form(page))
    await expect(row(page, `www.${zone}`)).toContainText('192.0.2.10')
    expect(await stored('/dns/records')).toMatchObject([
      { name: 'www', type: 'A', value: '192.0.2.10', priority: null, port: null },
    ])
    await expect.poll(() => onGateway('dig', '+short', '@127.0.0.1', `www.${zone}`)).toContain('192.0.2.10')
  })
})

test('the palette finds a record of a zone', async ({ page }) => {
  await page.goto('/')
  await page.getByRole('heading', { level: 1 }).waitFor()
  await page.keyboard.press('Control+K')
  await page.getByPlaceholder('Search pages, objects and actions…').fill(`www.${zone}`)
  await page.getByRole('button', { name: `www.${zone}` }).click()
  await expect(form(page).getByLabel('Value')).toHaveValue('192.0.2.10')
})

test('the cache is flushed after a confirmation', async ({ page }) => {
  await page.goto('/services/dns/statistics')
  await page.getByRole('button', { name: 'Flush cache' }).click()
  await form(page).getByRole('button', { name: 'Flush cache' }).click()
  await expect(page.getByText('The cache is empty')).toBeVisible()
})

test('DNS warns that it only answers the gateway, and answers the LAN if told to', async ({ page }) => {
  await page.goto('/services/dns')
  const notice = page.getByText('Only the gateway itself is answered.')
  await expect(notice).toBeVisible()
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Answer lan0 (10.10.0.1)' }).click()
  await expect(notice).toBeHidden()
  // The browser is on the LAN.
  await expect
    .poll(() => execFileSync('dig', ['+short', '@10.10.0.1', `www.${zone}`], { encoding: 'utf8' }))
    .toContain('192.0.2.10')
})

test("services offer the gateway's addresses to listen on", async ({ page }) => {
  for (const service of ['dns', 'radius', 'forward-proxy']) {
    await page.goto(`/services/${service}/settings`)
    await page.getByRole('combobox', { name: 'Listen on' }).click()
    await expect(page.getByRole('group', { name: 'wan0 (wan)' }).getByRole('option')).toContainText(['198.51.100.1'])
    await expectAccessible(page)
  }
  await page.getByRole('option', { name: '10.10.0.1', exact: true }).click()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await expectSaved(page)
  expect(await read('/forward-proxy/settings')).toMatchObject({ listen_addresses: ['10.10.0.1'] })
  await put('/forward-proxy/settings', { listen_addresses: [] })
})

test('a subnet follows its interface, and a lease becomes a reservation', async ({ page }) => {
  await page.goto('/services/dhcp')
  await expect(page.getByRole('heading', { name: 'DHCP is off' })).toBeVisible()
  await page.getByRole('link', { name: 'Subnets' }).click()
  await page.getByRole('link', { name: 'Add a subnet' }).click()
  await form(page).getByRole('combobox', { name: 'Interface' }).click()
  await page.getByRole('option', { name: /^lan0/ }).click()
  await expect(form(page).getByLabel('Network')).toHaveValue('10.10.0.0/24')
  await expect(form(page).getByLabel('First address')).toHaveValue('10.10.0.128')
  await expect(form(page).getByLabel('Gateway')).toHaveValue('10.10.0.1')
  await form(page).getByLabel('Last address').fill('10.10.0.199')
  await save(form(page))
  await expect(row(page, '10.10.0.0/24')).toContainText('10.10.0.128 – 10.10.0.199')
  // The gateway serves DNS there, but not NTP.
  expect(await stored('/dhcp/subnets')).toMatchObject([{ dns_servers: ['10.10.0.1'], ntp_servers: [] }])

  await switchOn(page, 'Enable DHCP')

  askForLease({ hostname: 'laptop', tries: 5 })
  await page.getByRole('link', { name: 'Leases' }).click()
  await expect(row(page, 'laptop')).toContainText('active')
  await expect(page.getByText('1 of 72')).toBeVisible()
  await expectAccessible(page)
  await row(page, 'laptop').getByRole('link', { name: 'Reserve' }).click()
  await expect(form(page).getByLabel('Name')).toHaveValue('laptop')
  await save(form(page))
  await expect(row(page, 'laptop')).toContainText('10.10.0.0/24')
  await page.getByRole('link', { name: 'Leases' }).click()
  await expect(row(page, 'laptop').getByRole('link', { name: 'reserved' })).toBeVisible()
})

test('entries of the access list are reordered', async ({ page }) => {
  await page.goto('/services/forward-proxy')
  await expect(page.getByText('The forward proxy is off')).toBeVisible()
  const make = async (name: string, value: string) => {
    await page.getByRole('link', { name: 'Add an entry' }).click()
    await form(page).getByLabel('Name').fill(name)
    await form(page).getByLabel('Value').fill(value)
    await save(form(page))
    await expect(row(page, name)).toContainText('deny')
  }
  await make('News', '.news.example')
  await make('Games', '.games.example')
  await moveUp(page, 'Games')
  const names = async () => (await stored('/forward-proxy/acls')).map(({ name }) => name)
  await expect.poll(names).toEqual(['Games', 'News'])
  await row(page, 'Games').getByRole('switch').click()
  await expect(page.getByText('Games is off')).toBeVisible()
})

test('a client gets a secret, and a user their reply attributes', async ({ page }) => {
  await page.goto('/services/radius/clients')
  await page.getByRole('link', { name: 'Add a client' }).click()
  await form(page).getByLabel('Name').fill('switch-1')
  await form(page).getByLabel('Address').fill('10.10.0.2')
  await form(page).getByRole('button', { name: 'Generate' }).click()
  await expect(form(page).getByRole('textbox', { name: 'Shared secret' })).toHaveValue(/^[a-z2-9]{32}$/)
  await save(form(page))
  await expect(row(page, 'switch-1')).toContainText('configured')

  await page.getByRole('navigation', { name: 'RADIUS' }).getByRole('link', { name: 'Users' }).click()
  await page.getByRole('link', { name: 'Add a user' }).click()
  await form(page).getByLabel('Name').fill('anna')
  await form(page).getByRole('textbox', { name: 'Password' }).fill('the password of anna')
  await form(page).getByLabel('VLAN').fill('20')
  await save(form(page))
  await expect(row(page, 'anna')).toContainText('20')

  // A user keeps the stored password if the field stays empty.
  await row(page, 'anna').getByRole('link', { name: 'anna', exact: true }).click()
  await expect(form(page).getByRole('textbox', { name: 'Password' })).toHaveValue('')
  await form(page).getByLabel('VLAN').fill('30')
  await save(form(page))
  await expect(row(page, 'anna')).toContainText('30')

  await switchOn(page, 'Enable RADIUS')
  await page.getByRole('link', { name: 'Test login' }).click()
  const attempt = async (password: string, method: string, outcome: string) => {
    await form(page).getByLabel('Name').fill('anna')
    await form(page).getByRole('textbox', { name: 'Password' }).fill(password)
    await form(page).getByText(method, { exact: true }).click()
    await form(page).getByRole('button', { name: 'Test' }).click()
    await expect(form(page).getByText(outcome, { exact: true })).toBeVisible()
  }
  await attempt('not the password', 'PAP', 'rejected')
  await attempt('the password of anna', 'CHAP', 'accepted')
  await expect(form(page)).toContainText('Tunnel-Private-Group-Id')
  await expectAccessible(page)
  await form(page).getByRole('button', { name: 'Close' }).click()
  await page.getByRole('link', { name: 'Recent logins' }).click()
  await expect(row(page, 'anna').filter({ hasText: 'accepted' })).toBeVisible()
  await expect(row(page, 'anna').filter({ hasText: 'rejected' })).toBeVisible()
})
