import { readFileSync } from 'node:fs'
import type { Locator, Page } from '@playwright/test'
import {
  admin,
  clear,
  connect,
  disconnect,
  expect,
  expectAccessible,
  leaveTunnelFile,
  logIn,
  makeUser,
  put,
  read,
  test,
} from './gateway'

// Each test continues where the previous one stopped.
test.describe.configure({ mode: 'serial' })

const form = (page: Page) => page.getByRole('dialog')
const row = (page: Page, text: string) => page.getByRole('row').filter({ hasText: text })
const save = (where: Page | Locator) => where.getByRole('button', { name: 'Save', exact: true }).click()
const agree = (page: Page, question: string, verb: string) =>
  page.getByRole('dialog', { name: question }).getByRole('button', { name: verb }).click()
const key = 'xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg='

const idOf = async (path: string, name: string) => (await read(path)).find((one) => one.name === name)?.id
/** The page of the tunnel of these tests. */
const tunnelPath = async () => `/vpn/tunnels/${await idOf('/tunnel/interfaces', 'wg0')}`

/** Deletes all tunnels, here and on the device, and restores the NAT rules of the setup. */
async function clean() {
  disconnect('phone0')
  await clear('/tunnel/interfaces')
  await masquerade(true)
}
async function masquerade(enabled: boolean) {
  for (const { id } of await read('/nat-rules')) await put(`/nat-rules/${id}`, { enabled })
}
test.beforeAll(clean)
test.afterAll(clean)

// The device that connects here is a new interface on the browser's machine. The browser drops its connections when it
// appears.
test.use({ expected: ['net::ERR_NETWORK_CHANGED', 'net::ERR_SOCKET_NOT_CONNECTED'] })

test('a server is created, and its peer in one dialog, which connects and is turned off', async ({ page, browser }) => {
  await page.goto('/vpn/tunnels')
  await expect(page.getByRole('heading', { name: 'No tunnels yet' })).toBeVisible()
  await page.getByRole('link', { name: 'Add a tunnel' }).click()
  await expect(form(page).getByRole('textbox', { name: 'Name', exact: true })).toHaveValue('wg0')
  await expect(form(page).getByLabel('UDP port')).toHaveValue('51820')
  await form(page).getByLabel('Endpoint').fill('10.10.0.1')
  await form(page).getByLabel('Networks behind the gateway').fill('0.0.0.0/0')
  await save(form(page))
  await expect(page.getByRole('heading', { name: 'wg0' })).toBeVisible()
  await expect(page.getByText('up', { exact: true })).toBeVisible()
  await page.getByRole('link', { name: 'Assign a zone' }).click()
  await expect(form(page).getByRole('combobox', { name: 'Name' })).toHaveValue('wg0')
  await expect(form(page).getByRole('radio', { name: 'WireGuard: a tunnel' })).toBeChecked()
  await page.goto(await tunnelPath())

  await page.getByRole('link', { name: 'Add a peer' }).click()
  await form(page).getByLabel('Name').fill("Anna's phone")
  await expect(form(page).getByText('10.8.0.2/32')).toBeVisible()
  await form(page).getByLabel('Keepalive').fill('1')
  await save(form(page))
  await expect(form(page).getByRole('img', { name: "QR code of the configuration of Anna's phone" })).toBeVisible()
  await expectAccessible(page)
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    form(page).getByRole('link', { name: 'Download file' }).click(),
  ])
  expect(download.suggestedFilename()).toBe('Anna-s-phone.conf')
  const config = readFileSync(await download.path(), 'utf8')
  expect(config).toContain('Endpoint = 10.10.0.1:51820')
  await form(page).getByRole('link', { name: 'Done' }).click()

  await expect(row(page, "Anna's phone")).toContainText('offline')
  connect('phone0', config)
  await expect(row(page, "Anna's phone").getByText('online', { exact: true })).toBeVisible()
  await expect(row(page, "Anna's phone")).toContainText('10.10.0.2:')
  await expectAccessible(page)

  // Through the tunnel itself, the same switch would cut off the console, so it asks.
  const inside = await browser.newPage({ baseURL: 'https://10.8.0.1:3443' })
  // The browser aborts loading when it notices the new interface.
  await expect(() => logIn(inside, admin)).toPass()
  await inside.goto(await tunnelPath())
  await row(inside, "Anna's phone").getByRole('switch').click()
  await expect(inside.getByRole('dialog')).toContainText("it comes through Anna's phone of the tunnel wg0")
  await inside.close()

  await row(page, "Anna's phone").getByRole('switch').click()
  await expect(page.getByText("Anna's phone is off")).toBeVisible()
})

test('a peer with its own key has no configuration until it gets a new pair, and wide networks are marked', async ({
  page,
}) => {
  await page.goto(await tunnelPath())
  await page.getByRole('link', { name: 'Add a peer' }).click()
  await form(page).getByLabel('Name').fill('Bern')
  await form(page).getByLabel('Address in the tunnel').fill('10.40.0.0/16')
  await form(page).getByLabel('From the device').check()
  await form(page).getByRole('textbox', { name: 'Public key' }).fill(key)
  await save(form(page))
  await expect(form(page)).toContainText('No configuration available')
  await form(page).getByRole('button', { name: 'New key pair' }).click()
  await agree(page, 'New key pair for Bern?', 'New key pair')
  await expect(form(page).getByRole('img', { name: 'QR code of the configuration of Bern' })).toBeVisible()
  await form(page).getByRole('link', { name: 'Done' }).click()
  await expect(row(page, 'Bern')).toContainText('more than one host')

  // Its peers send everything through it and need a masquerade rule. If there is none, the page offers one.
  await masquerade(false)
  await page.getByRole('link', { name: 'Add NAT rule' }).click()
  await expect(form(page).getByRole('textbox', { name: 'Name', exact: true })).toHaveValue('wg0 to the internet')
  await expect(form(page).getByRole('textbox', { name: 'Source network' })).toHaveValue('10.8.0.0/24')
  await masquerade(true)
})

test.describe('a viewer', () => {
  test.use({ storageState: { cookies: [], origins: [] } })

  test('sees peers, but neither their configuration nor any actions', async ({ page }) => {
    await logIn(page, await makeUser('tunnel-viewer'))
    await page.goto(`${await tunnelPath()}/${await idOf('/peers', 'Bern')}/config`)
    await expect(form(page)).toContainText('Only administrators')
    await form(page).getByRole('button', { name: 'Close' }).click()
    await expect(row(page, 'Bern')).toBeVisible()
    for (const name of ['Add a peer', 'Configuration of Bern', 'Edit tunnel'])
      await expect(page.getByRole('link', { name })).toHaveCount(0)
    await expect(page.getByRole('button', { name: 'More actions for wg0' })).toHaveCount(0)
  })
})

test('a peer and a tunnel are deleted; others are imported from a provider and from the machine', async ({ page }) => {
  await page.goto(await tunnelPath())
  await page.getByRole('link', { name: 'Bern', exact: true }).click()
  await form(page).getByRole('button', { name: 'Delete' }).click()
  await agree(page, 'Delete Bern?', 'Delete')
  await expect(row(page, 'Bern')).toHaveCount(0)
  await page.getByRole('link', { name: 'Edit tunnel' }).click()
  await form(page).getByRole('button', { name: 'Delete' }).click()
  await agree(page, 'Delete wg0?', 'Delete')
  await expect(page.getByRole('heading', { name: 'No tunnels yet' })).toBeVisible()

  await page.getByRole('link', { name: 'Add a tunnel' }).click()
  await form(page).getByRole('button', { name: 'Paste provider configuration' }).click()
  const conf = `[Interface]\nPrivateKey = yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=\nAddress = 10.64.0.7\nPostUp = x\n
[Peer]\nPublicKey = ${key}\nEndpoint = 198.51.100.2:51999\nAllowedIPs = 10.64.0.0/16`
  await form(page).getByLabel('Provider configuration', { exact: true }).fill(conf)
  await expect(form(page)).toContainText('Ignored: PostUp.')
  await expect(form(page).getByLabel('Upstream endpoint')).toHaveValue('198.51.100.2:51999')
  await save(form(page))
  // The public key that belongs to the private one.
  await expect(page.getByText('HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=')).toBeVisible()

  leaveTunnelFile('branch')
  await page.goto('/vpn/tunnels')
  await page.getByRole('link', { name: 'Import (1)' }).click()
  await expect(form(page).getByRole('region', { name: 'branch' })).toContainText('PostUp')
  await expectAccessible(page)
  await form(page).getByRole('button', { name: 'Import 1 tunnel' }).click()
  await expect(form(page)).toContainText('imported with 1 peer')
  await form(page).getByRole('link', { name: 'Done' }).click()
  await expect(row(page, 'branch')).toContainText('51999')
})
