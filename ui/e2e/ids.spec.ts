import type { Page } from '@playwright/test'
import { expect, expectAccessible, expectSaved, put, read, settled, test } from './gateway'

test.describe.configure({ mode: 'serial' })

const form = (page: Page) => page.getByRole('dialog')
const stored = (path: string) => read<Record<string, unknown>>(path)

// Other tests expect a gateway that does not ban.
const usual = {
  enabled: false,
  ban_duration: '4h',
  sources: { ssh: true, haproxy: true, packet_filter: false, waf: true },
  allow_list: [],
}
const clean = async () => void (await put('/ids/settings', usual))
test.beforeAll(clean)
test.afterAll(clean)

test('shows that it is off, and the state of its daemons', async ({ page }) => {
  await page.goto('/')
  await page.getByRole('navigation', { name: 'Areas' }).getByRole('link', { name: 'Intrusion detection' }).click()
  await expect(page.getByText('Intrusion detection is off')).toBeVisible()
  const words: Record<string, string> = { not_installed: 'not installed', stopped: 'stopped', running: 'running' }
  const { state } = (await stored('/ids/status')).agent as { state: string }
  await expect(
    page
      .getByRole('main')
      .getByText(words[state] ?? state, { exact: true })
      .first(),
  ).toBeVisible()
  await settled(page)
  await expectAccessible(page)
})

test.describe('the settings', () => {
  test.use({ expected: [400] })

  test('are saved, and errors are shown at their fields', async ({ page }) => {
    await page.goto('/security/ids/settings')
    await page.getByRole('textbox', { name: 'Ban duration' }).fill('2')
    await page.getByRole('main').getByRole('switch', { name: 'Proxy' }).uncheck({ force: true })
    await page.getByRole('button', { name: 'Add a network' }).click()
    await page.getByLabel('Address or network, row 1').fill('0.0.0.0/0')
    await page.getByLabel('Description, row 1').fill('Office')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await expect(page.getByText(/must not contain all addresses/)).toBeVisible()
    await page.getByLabel('Address or network, row 1').fill('203.0.113.0/24')
    await expectAccessible(page)
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await expectSaved(page)
    expect(await stored('/ids/settings')).toMatchObject({
      ban_duration: '2h',
      sources: { ssh: true, haproxy: false, packet_filter: false, waf: true },
      allow_list: [{ cidr: '203.0.113.0/24', note: 'Office' }],
    })
  })
})

test.describe('a ban', () => {
  test.use({ expected: [400, 409, 503] })

  test("of an allowed address is refused, and of an administrator's asks first", async ({ page }) => {
    await page.goto('/')
    await page.getByRole('heading', { level: 1 }).waitFor()
    await page.keyboard.press('Control+K')
    await page.getByPlaceholder('Search pages, objects and actions…').fill('Ban an address')
    await page.getByRole('button', { name: 'Ban an address' }).click()
    const address = form(page).getByLabel('Address')
    const ban = form(page).getByRole('button', { name: 'Ban', exact: true })
    await address.fill('203.0.113.9')
    await ban.click()
    await expect(address).toHaveAttribute('aria-invalid', 'true')
    await expect(form(page)).toContainText('is never banned')

    // The browser's address, on the LAN.
    await address.fill('10.10.0.2')
    await ban.click()
    const question = page.getByRole('dialog', { name: 'Ban 10.10.0.2?' })
    await expect(question).toContainText('your own address')
    await expectAccessible(page)
    await question.getByRole('button', { name: 'Cancel' }).click()
    await expect(form(page)).toContainText('It was not banned.')
    await expect(address).toHaveValue('10.10.0.2')
  })
})
