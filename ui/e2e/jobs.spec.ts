import type { Page } from '@playwright/test'
import {
  askForLease,
  baseURL,
  clear,
  countClicks,
  expect,
  expectAccessible,
  knockUntil,
  logIn,
  long,
  make,
  makeUser,
  onGateway,
  plugIn,
  put,
  read,
  settled,
  switchOn,
  test,
  unplug,
} from './gateway'
import { keyboard, mouse } from './hands'
import { totp } from './totp'

// The most common jobs. Clicks are counted from the front page, by someone who knows the way.

const menu = (page: Page, name: string) => page.getByRole('navigation').getByRole('link', { name, exact: true })
const site = 'jobs.example.net'
const forward = 'tcp 8443 to 10.10.0.2'
const radiusClient = 'switch-of-the-job'
const viewer = 'jobs@example.com'
const created = (page: Page) => page.getByRole('list', { name: 'What was created' })
const save = (page: Page) => page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true })

/** Opens the front page, and starts counting clicks. */
async function begin(page: Page) {
  await page.goto('/')
  const clicks = await countClicks(page)
  await settled(page)
  return clicks
}

/** Reverts the last change set. */
async function takeBack() {
  const [last] = await read('/change-sets?limit=1')
  await make(`/change-sets/${last?.id}/revert`, {})
}

/** Deletes what the jobs create: an earlier attempt or the other input method may have created it. */
async function clean() {
  await clear('/nat-rules', forward)
  await clear('/domains', site)
  await clear('/backends', site)
  await clear('/tunnel/interfaces', '10.10.0.1')
  await clear('/dns/zones', site)
  await clear('/dhcp/subnets', '10.10.0.0/24')
  await put('/dhcp/settings', { enabled: false })
  await clear('/radius/clients', radiusClient)
  await clear('/users', viewer)
}
test.beforeEach(clean)
test.afterAll(clean)

for (const hands of long ? [mouse, keyboard] : [mouse]) {
  const { name, press, fill, check, pick, choose, clicks: limit } = hands

  test.describe(`with the ${name}`, () => {
    test.describe('a guest network', () => {
      test.beforeAll(() => {
        plugIn('guest1')
        for (const link of ['guest1', 'guest1-far']) onGateway('ip', 'link', 'set', link, 'up')
      })
      test.afterAll(async () => {
        if ((await read('/network-interfaces')).some((one) => one.name === 'guest1')) await takeBack()
        unplug('guest1')
      })

      test('takes one form and at most eight clicks', async ({ page }) => {
        const clicks = await begin(page)
        await press(menu(page, 'Interfaces'))
        await press(page.getByRole('link', { name: 'New network' }))
        const form = page.getByRole('dialog')
        await pick(form.getByRole('radio', { name: 'Port of its own' }))
        await choose(
          form.getByRole('combobox', { name: 'Port' }),
          page.getByRole('option', { name: 'guest1', exact: true }),
        )
        await fill(form.getByLabel('Gateway address'), '10.20.0.1/24')
        await expect(form.getByLabel('First address')).toHaveValue('10.20.0.128')
        await expectAccessible(page)
        await press(save(page))
        const parts = created(page)
        for (const part of ['guest', 'guest1', '10.20.0.1/24', '10.20.0.0/24', 'guest to wan'])
          await expect(parts.getByRole('link', { name: part, exact: true })).toBeVisible()
        // One more click confirms that the console is still reachable; the test does that through the API.
        expect(await clicks()).toBeLessThanOrEqual(limit(7))
        expect(onGateway('ip', '-br', 'addr', 'show', 'guest1')).toContain('10.20.0.1/24')
        await press(parts.getByRole('link', { name: '10.20.0.0/24' }))
        await expect(page).toHaveURL(/\/services\/dhcp\/subnets\//)
      })
    })

    // A lab's kernel may lack VLANs, so the test only previews the change, with the same number of clicks.
    test('a guest VLAN takes one form and at most eight clicks', async ({ page }) => {
      const clicks = await begin(page)
      await press(menu(page, 'Interfaces'))
      await press(page.getByRole('link', { name: 'New network' }))
      const form = page.getByRole('dialog')
      await choose(
        form.getByRole('combobox', { name: 'Parent interface' }),
        page.getByRole('option', { name: 'lan0', exact: true }),
      )
      await fill(form.getByLabel('VLAN ID'), '20')
      await fill(form.getByLabel('Gateway address'), '10.20.0.1/24')
      await expect(form.getByLabel('Interface name')).toHaveValue('guest20')
      await press(form.getByRole('button', { name: 'Preview changes' }))
      const preview = form.getByRole('region', { name: 'Preview changes' })
      for (const part of ['guest20', '10.20.0.1', '10.20.0.0/24', 'guest to wan'])
        await expect(preview).toContainText(part)
      expect(await clicks()).toBeLessThanOrEqual(limit(7))
    })

    test('a port forward takes at most four clicks', async ({ page }) => {
      const clicks = await begin(page)
      await press(menu(page, 'NAT'))
      await press(page.getByRole('link', { name: 'Port forward' }))
      const form = page.getByRole('dialog')
      await fill(form.getByRole('textbox', { name: 'Port', exact: true }), '8443')
      await fill(form.getByLabel('Target address'), '10.10.0.2')
      await expect(form.getByLabel('Name')).toHaveValue(forward)
      await expectAccessible(page)
      await press(save(page))
      const rule = created(page).getByRole('link', { name: forward })
      await expect(rule).toBeVisible()
      expect(await clicks()).toBeLessThanOrEqual(limit(3))
      await press(rule)
      await expect(form.getByLabel('Target address')).toHaveValue('10.10.0.2')
    })

    test.describe('on a reloading proxy', () => {
      // Adding a backend reloads the proxy, which may drop a connection that the page is using. The page retries.
      test.use({ expected: ['net::ERR_FAILED'] })

      test('a site is published with at most three clicks', async ({ page }) => {
        const clicks = await begin(page)
        await press(menu(page, 'Domains'))
        await press(page.getByRole('link', { name: 'Add a domain' }))
        const form = page.getByRole('dialog')
        await fill(form.getByLabel('Name'), site)
        await fill(form.getByLabel('Address'), '10.10.0.2')
        await press(save(page))
        await expect(created(page).getByRole('link', { name: site })).toHaveCount(2)
        await expect(created(page)).toContainText('server-1')
        expect(await clicks()).toBeLessThanOrEqual(limit(3))
        await press(created(page).getByRole('link', { name: site }).last())
        await expect(page).toHaveURL(/\/proxy\/domains\/./)
      })
    })

    test('a VPN server, its first peer and the QR code take at most five clicks', async ({ page }) => {
      const clicks = await begin(page)
      await press(menu(page, 'Tunnels'))
      await press(page.getByRole('link', { name: 'Add a tunnel' }))
      const form = page.getByRole('dialog')
      await fill(form.getByLabel('Endpoint'), '10.10.0.1')
      await press(save(page))
      await press(page.getByRole('link', { name: 'Add a peer' }))
      await fill(form.getByLabel('Name'), 'phone of the job')
      await press(save(page))
      await expect(form.getByRole('img', { name: 'QR code of the configuration of phone of the job' })).toBeVisible()
      expect(await clicks()).toBeLessThanOrEqual(limit(5))
    })

    test('a DNS record takes at most five clicks, including its zone', async ({ page }) => {
      const clicks = await begin(page)
      await press(menu(page, 'DNS'))
      await press(page.getByRole('link', { name: 'Add a zone' }))
      const form = page.getByRole('dialog')
      await fill(form.getByRole('textbox', { name: 'Name', exact: true }), site)
      await press(save(page))
      await press(page.getByRole('link', { name: 'Add a record' }))
      await fill(form.getByLabel('Name'), 'www')
      await fill(form.getByLabel('Value'), '192.0.2.44')
      await press(save(page))
      await expect(page.getByRole('row').filter({ hasText: `www.${site}` })).toContainText('192.0.2.44')
      expect(await clicks()).toBeLessThanOrEqual(limit(5))
      expect(onGateway('dig', '+short', '@127.0.0.1', `www.${site}`)).toContain('192.0.2.44')
    })

    test('DHCP on the LAN takes at most nine clicks, and a reservation two more', async ({ page }) => {
      const clicks = await begin(page)
      await press(menu(page, 'DHCP'))
      await press(page.getByRole('link', { name: 'Subnets' }))
      await press(page.getByRole('link', { name: 'Add a subnet' }))
      const form = page.getByRole('dialog')
      await choose(form.getByRole('combobox', { name: 'Interface' }), page.getByRole('option', { name: /^lan0/ }))
      await press(save(page))
      await expect(form).toBeHidden()
      await switchOn(page, 'Enable DHCP', hands)
      expect(await clicks()).toBeLessThanOrEqual(limit(9))
      askForLease({ hostname: 'jobs' })

      await press(page.getByRole('link', { name: 'Leases' }))
      const before = await clicks()
      await press(page.getByRole('row').filter({ hasText: 'jobs' }).getByRole('link', { name: 'Reserve' }))
      await press(save(page))
      await expect(page.getByRole('row').filter({ hasText: 'jobs' })).toContainText('10.10.0.0/24')
      expect((await clicks()) - before).toBeLessThanOrEqual(limit(2))
    })

    test('a RADIUS client takes at most five clicks', async ({ page }) => {
      const clicks = await begin(page)
      await press(menu(page, 'RADIUS'))
      await press(page.getByRole('navigation', { name: 'RADIUS' }).getByRole('link', { name: 'Clients' }))
      await press(page.getByRole('link', { name: 'Add a client' }))
      const form = page.getByRole('dialog')
      await fill(form.getByLabel('Name'), radiusClient)
      await fill(form.getByLabel('Address'), '10.10.0.3')
      await press(form.getByRole('button', { name: 'Generate' }))
      await press(save(page))
      await expect(page.getByRole('row').filter({ hasText: radiusClient })).toContainText('configured')
      expect(await clicks()).toBeLessThanOrEqual(limit(5))
    })

    test('a viewer is added with at most four clicks', async ({ page }) => {
      const clicks = await begin(page)
      await press(menu(page, 'Users'))
      await press(page.getByRole('link', { name: 'Add a user' }))
      const form = page.getByRole('dialog')
      await fill(form.getByLabel('E-mail'), viewer)
      await fill(form.getByRole('textbox', { name: 'Password' }), 'the password of the job')
      await press(save(page))
      await expect(page.getByRole('row').filter({ hasText: viewer })).toContainText('viewer')
      expect(await clicks()).toBeLessThanOrEqual(limit(4))
    })

    test.describe('for the own account', () => {
      test.use({ storageState: { cookies: [], origins: [] } })

      test('an authenticator app is set up with at most six clicks', async ({ page }) => {
        await logIn(page, await makeUser(`jobs-totp-${name}`))
        const clicks = await begin(page)
        await press(page.getByRole('button', { name: 'Your account' }))
        await press(page.getByRole('menuitem', { name: 'Account and security' }))
        await press(page.getByRole('link', { name: 'Two-factor' }))
        await press(page.getByRole('button', { name: 'Set up an app' }))
        const secret = (await page.getByRole('region', { name: 'Secret' }).locator('code').textContent()) ?? ''
        await fill(page.getByLabel('Code', { exact: true }), totp(secret))
        await page.keyboard.press('Enter')
        await check(page.getByLabel('I have saved these codes'))
        await press(page.getByRole('button', { name: 'Done' }))
        await expect(page.getByRole('button', { name: 'Turn off' })).toBeVisible()
        expect(await clicks()).toBeLessThanOrEqual(limit(6))
      })
    })

    test('finding out why a packet is dropped takes at most three clicks', async ({ page }) => {
      const clicks = await begin(page)
      await press(menu(page, 'Log'))
      await expect(page.getByRole('heading', { name: 'Firewall log' })).toBeVisible() // the previous page may still be shown, and has such a mark as well
      await expect(page.getByText('up to date')).toBeVisible()
      const dropped = page.getByRole('row').filter({ hasText: `${new URL(baseURL).hostname}:8555` })
      await knockUntil(dropped.first(), 8555)
      await press(dropped.first().getByRole('button', { name: /^More actions for/ }))
      await press(page.getByRole('menuitem', { name: 'Explain packet' }))
      await expect(page.getByText('stopped')).toBeVisible()
      expect(await clicks()).toBeLessThanOrEqual(limit(3))
    })

    test('finding out what has changed since yesterday takes two clicks', async ({ page }) => {
      const zone = { name: `jobs-${name}`, description: 'for the job' }
      await clear('/firewall/zones', zone.name)
      await make('/firewall/zones', zone)
      const clicks = await begin(page)
      await press(menu(page, 'Audit'))
      await press(page.getByRole('button', { name: 'Changes since yesterday' }))
      await expect(page.getByRole('listitem').filter({ hasText: zone.name })).toContainText('created')
      expect(await clicks()).toBeLessThanOrEqual(limit(2))
      await clear('/firewall/zones', zone.name)
    })
  })
}
