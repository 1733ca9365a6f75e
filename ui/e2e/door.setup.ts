import type { Page } from '@playwright/test'
import {
  admin,
  askForLease,
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

/** The tests of the services begin with what an installation has. */
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

/** Pictures of a page in both schemes, when they are wanted. */
async function picture(page: Page, name: string) {
  for (const colorScheme of takingScreenshots ? schemes : []) {
    await page.emulateMedia({ colorScheme })
    await page.screenshot({ path: `${screenshots}/${name}-${colorScheme}.png`, fullPage: true })
  }
}

test.describe('the door', () => {
  test.describe.configure({ mode: 'serial' })
  test.use({ expected: [400, 401] })

  test('the setup wizard makes a gateway whose LAN works, in eight clicks', async ({ page }) => {
    const { data: status } = await (await page.request.get('/api/v1/setup/status')).json()
    expect(status.completed, 'the tests need a fresh gateway').toBe(false)

    await page.goto('/setup')
    await expectFit(page)
    await picture(page, 'setup')

    await expect(page.getByRole('button', { name: 'Join a cluster instead' })).toBeVisible()

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

    // From here on as somebody does it: to a LAN that works.
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
    // The resolver on the WAN signs nothing.
    const unsigned = await page.request.put('/api/v1/dns/settings', { data: { dnssec_validation: false } })
    expect(unsigned.ok(), await unsigned.text()).toBe(true)
    await expectFit(page)
    await picture(page, 'adopt')
    await page.getByRole('button', { name: 'Preview changes' }).click()
    await expect(page.getByRole('region', { name: 'Preview changes' })).toContainText('198.51.100.1')
    await page.getByRole('button', { name: 'Set up 2 interfaces' }).click()
    const proof = page.getByRole('list', { name: 'What works' })
    await expect(proof).toContainText('Ready to hand out 10.10.0.128 – 10.10.0.254.')
    await expect(proof).toContainText('The clock follows 198.51.100.2')
    await expect(proof).toContainText('10.10.0.1 resolves names.')
    expect(await clicks()).toBeLessThanOrEqual(8)
    await expectFit(page)
    if (takingScreenshots) await page.screenshot({ path: `${screenshots}/proof.png` })
    askForLease()
    await expect(proof).toContainText('1 client has an address')

    await page.getByRole('link', { name: 'Close', exact: true }).click()
    await expect(page.getByRole('table', { name: 'Interfaces' }).getByRole('link')).toHaveText(['lan0', 'wan0'])
    await expect(page.getByRole('link', { name: 'Set up interfaces' })).toHaveCount(0)
    await withoutServices(page)
    await logOut(page)
  })

  test('before the login every page of the door is accessible in both schemes', async ({ page }) => {
    for (const path of ['/login', '/reset-password', '/setup']) {
      await page.goto(path)
      await expectFit(page)
    }
  })

  test('a wrong password is told, and leads nowhere', async ({ page }) => {
    await page.goto('/login')
    await page.getByLabel('E-mail').fill(admin.email)
    await page.getByLabel('Password', { exact: true }).fill('not the password')
    await page.getByRole('button', { name: 'Log in' }).click()
    await expect(page.getByRole('alert')).toBeVisible()
    await expect(page).toHaveURL(/\/login$/)
  })

  test('a single sign-on that failed is told in a sentence', async ({ page }) => {
    await page.goto('/login?sso_error=no_account')
    await expect(page.getByRole('alert')).toContainText('no account for your e-mail address')
    await page.goto('/login?sso_error=never-heard-of')
    await expect(page.getByRole('alert')).toContainText('Single sign-on failed')
    await expect(page.getByRole('link', { name: /^Log in with/ })).toHaveCount(0)
  })

  test('a reset token that nobody made is refused', async ({ page }) => {
    await page.goto('/reset-password?token=0123456789abcdef0123456789abcdef')
    await page.getByLabel('New password').fill('another long password')
    await page.getByRole('button', { name: 'Set password' }).click()
    await expect(page.getByRole('alert')).toBeVisible()
  })

  test('the login leads to the page that was asked for', async ({ page }) => {
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
