import http from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Page } from '@playwright/test'
import {
  admin,
  askForLease,
  baseURL,
  countClicks,
  expect,
  expectFit,
  logIn,
  logOut,
  name,
  schemes,
  screenshots,
  sessionFile,
  setupToken,
  takingScreenshots,
  test,
} from './gateway'

/** Resets the services to what an installation has. */
async function withoutServices({ request }: Page) {
  const { data: subnets } = await (await request.get('/api/v1/dhcp/subnets')).json()
  const resolver = { listen_addresses: ['127.0.0.1', '::1'], upstream_forwards: [], dnssec_validation: true }
  const answers = [
    ...(await Promise.all(subnets.map(({ id }: { id: string }) => request.delete(`/api/v1/dhcp/subnets/${id}`)))),
    await request.put('/api/v1/dhcp/settings', { data: { enabled: false } }),
    await request.put('/api/v1/dns/settings', { data: resolver }),
    await request.put('/api/v1/ntp/settings', { data: { serve_clients: false, listen_addresses: [], allow_acl: [] } }),
  ]
  for (const answer of answers) expect(answer.ok(), await answer.text()).toBe(true)
  const { data: sources } = await (await request.get('/api/v1/ntp/pools')).json()
  for (const { id, address } of sources)
    if (address === '198.51.100.2') expect((await request.delete(`/api/v1/ntp/pools/${id}`)).ok()).toBe(true)
}

/** Deletes what the wizard created on request. */
async function withoutFirstThings({ request }: Page) {
  const remove = async (path: string, field: string, value: string) => {
    const { data: rows } = await (await request.get(`/api/v1${path}`)).json()
    for (const row of rows as Record<string, string>[]) {
      if (row[field] !== value) continue
      const answer = await request.delete(`/api/v1${path}/${row.id}`)
      expect(answer.ok(), await answer.text()).toBe(true)
    }
  }
  await remove('/domains', 'name', site)
  await remove('/backends', 'name', site)
  await remove('/firewall/rules', 'name', 'vpn to lan')
  await remove('/network-interfaces', 'role', 'vpn')
  await remove('/tunnel/interfaces', 'name', 'wg0')
  await remove('/firewall/zones', 'name', 'vpn')
}

const site = 'first.example.net'

/** A web server on the browser's machine, for the first site. */
async function serve(): Promise<{ address: string; port: number; close: () => void }> {
  const server = http.createServer((_, answer) => answer.end('the first site'))
  await new Promise<void>((listening) => server.listen(0, '10.10.0.2', listening))
  const { address, port } = server.address() as AddressInfo
  return { address, port, close: () => server.close() }
}

/** What a visitor of the site gets, whatever its name resolves to. */
const visit = () =>
  new Promise<string>((resolve, reject) => {
    const { hostname } = new URL(baseURL)
    const options = { hostname, servername: site, headers: { Host: site }, rejectUnauthorized: false, agent: false }
    const asked = https.get(options, async (answer) => {
      let text = ''
      for await (const part of answer) text += part
      resolve(text)
    })
    asked.on('error', reject)
  })

/** Takes screenshots of a page in both schemes, if wanted. */
async function picture(page: Page, name: string) {
  for (const colorScheme of takingScreenshots ? schemes : []) {
    await page.emulateMedia({ colorScheme })
    await page.screenshot({ path: `${screenshots}/${name}-${colorScheme}.png`, fullPage: true })
  }
}

test.describe('the door', () => {
  test.describe.configure({ mode: 'serial' })
  // Adding the site reloads the proxy, which may drop a connection that the page is using. The page retries.
  test.use({ expected: [400, 401, 'net::ERR_FAILED'] })

  test('the setup wizard makes a working LAN, a site and a VPN in eight clicks', async ({ page }) => {
    const { data: status } = await (await page.request.get('/api/v1/setup/status')).json()
    expect(status.completed, 'the tests need a fresh gateway').toBe(false)

    await page.goto('/setup')
    await expectFit(page)
    await picture(page, 'setup')

    await expect(page.getByRole('button', { name: 'join a cluster' })).toBeVisible()

    const fill = async (token: string, password: string) => {
      if (status.setup_token_required) await page.getByLabel('Setup token').fill(token)
      await page.getByLabel("Administrator's e-mail").fill(admin.email)
      await page.getByLabel("Administrator's password").fill(password)
      await page.getByLabel('Host name').fill(name)
      await page.getByLabel('Get certificates automatically').uncheck()
      await page.getByRole('button', { name: 'Set up the gateway' }).click()
    }
    await fill(setupToken, 'short')
    await expect(page.getByLabel("Administrator's password")).toHaveAttribute('aria-invalid', 'true')

    // From here on as a user would: up to a working LAN.
    const clicks = await countClicks(page)
    await fill(setupToken, admin.password)
    await expect(page).toHaveURL(/\/network\/interfaces\/adopt$/)
    await expect(page.getByRole('combobox', { name: 'Zone of wan0' })).toHaveValue('wan')
    const lan = page.getByRole('group', { name: 'lan0' })
    for (const label of ['Hand out addresses', 'Answer DNS queries', 'Serve time', 'Let this network reach'])
      await expect(lan.getByLabel(label)).toBeChecked()
    await expect(lan.getByLabel('First address')).toHaveValue('10.10.0.128')
    await expect(lan.getByLabel('Last address')).toHaveValue('10.10.0.254')
    for (const label of ['Upstream resolvers', 'Time servers']) {
      const servers = page.getByRole('combobox', { name: label })
      await servers.fill('198.51.100.2')
      await servers.press('Enter')
    }
    // The resolver on the WAN does not support DNSSEC.
    const unsigned = await page.request.put('/api/v1/dns/settings', { data: { dnssec_validation: false } })
    expect(unsigned.ok(), await unsigned.text()).toBe(true)
    // The first site and the first VPN device. At first the site has no server.
    await page.getByLabel('Publish a site').check()
    await page.getByLabel('Name of the site').fill(site)
    await page.getByLabel('Set up a VPN').check()
    await page.getByLabel('First device').fill('Phone')
    await page.getByRole('button', { name: 'Preview changes' }).click()
    const address = page.getByLabel('Server address')
    await expect(address).toHaveAttribute('aria-invalid', 'true')
    const server = await serve()
    await address.fill(server.address)
    await page.getByLabel('Port', { exact: true }).fill(String(server.port))
    await expectFit(page)
    await picture(page, 'adopt')
    await page.getByRole('button', { name: 'Preview changes' }).click()
    await expect(page.getByRole('region', { name: 'Preview changes' })).toContainText('198.51.100.1')
    await page.getByRole('button', { name: 'Set up 2 interfaces' }).click()
    const proof = page.getByRole('list', { name: 'What works' })
    await expect(proof).toContainText('Ready to hand out 10.10.0.128 – 10.10.0.254.')
    await expect(proof).toContainText('The clock follows 198.51.100.2')
    await expect(proof).toContainText('10.10.0.1 resolves names.')
    await expect(proof).toContainText(`${site} is published, and its server ${server.address}:${server.port} answers.`)
    await expect(page.getByRole('img', { name: 'QR code of the configuration of Phone' })).toBeVisible()
    expect(await clicks()).toBeLessThanOrEqual(8)
    expect(await visit()).toBe('the first site')
    server.close()
    await expectFit(page)
    if (takingScreenshots) await page.screenshot({ path: `${screenshots}/proof.png` })
    askForLease()
    await expect(proof).toContainText('1 client has an address')

    await page.getByRole('link', { name: 'Close', exact: true }).click()
    await expect(page.getByRole('table', { name: 'Interfaces' }).getByRole('link')).toHaveText(['lan0', 'wan0', 'wg0'])
    await expect(page.getByRole('link', { name: 'Set up interfaces' })).toHaveCount(0)
    await withoutFirstThings(page)
    await withoutServices(page)
    await logOut(page)
  })

  test('every page before the login is accessible in both schemes', async ({ page }) => {
    for (const path of ['/login', '/reset-password', '/setup']) {
      await page.goto(path)
      await expectFit(page)
    }
  })

  test('a wrong password shows an error, and does not log in', async ({ page }) => {
    await page.goto('/login')
    await page.getByLabel('E-mail').fill(admin.email)
    await page.getByLabel('Password', { exact: true }).fill('not the password')
    await page.getByRole('button', { name: 'Log in' }).click()
    await expect(page.getByRole('alert')).toBeVisible()
    await expect(page).toHaveURL(/\/login$/)
  })

  test('a failed single sign-on is explained in a sentence', async ({ page }) => {
    await page.goto('/login?sso_error=no_account')
    await expect(page.getByRole('alert')).toContainText('no account for your e-mail address')
    await page.goto('/login?sso_error=never-heard-of')
    await expect(page.getByRole('alert')).toContainText('Single sign-on failed')
    await expect(page.getByRole('link', { name: /^Log in with/ })).toHaveCount(0)
  })

  test('an unknown reset token is refused', async ({ page }) => {
    await page.goto('/reset-password?token=0123456789abcdef0123456789abcdef')
    await page.getByLabel('New password').fill('another long password')
    await page.getByRole('button', { name: 'Set password' }).click()
    await expect(page.getByRole('alert')).toBeVisible()
  })

  test('the login returns to the requested page', async ({ page }) => {
    await page.goto('/system/users?role=admin')
    await expect(page).toHaveURL(/\/login\?next=/)
    await page.getByLabel('E-mail').fill(admin.email)
    await page.getByLabel('Password', { exact: true }).fill(admin.password)
    await page.getByRole('button', { name: 'Log in' }).click()
    await expect(page).toHaveURL(/\/system\/users\?role=admin$/)
    await expect(page.getByRole('link', { name: admin.email })).toBeVisible()
    await page.context().storageState({ path: sessionFile })
  })

  test('logging out ends the session', async ({ page }) => {
    await logIn(page, admin)
    await logOut(page)
    await page.goto('/')
    await expect(page).toHaveURL(/\/login\?next=/)
  })
})
