import { clear, expect, expectAccessible, expectSaved, make, onGateway, test } from './gateway'

const server = '198.51.100.2'
const without = () => clear('/ntp/pools', server)

/** Creates the server of these tests afresh. */
async function haveServer() {
  await without()
  await make('/ntp/pools', { kind: 'server', address: server, iburst: true })
}
test.afterAll(without)

test('an NTP server goes from the browser to chronyd', async ({ page, context }) => {
  await without()
  const audit = await context.newPage()
  await audit.goto('/operations/audit')
  await expect(audit.getByText('up to date')).toBeVisible()

  await page.goto('/services/ntp/servers')
  await page.getByRole('link', { name: 'Add a server' }).click()
  await page.getByLabel('Server: a single host').check({ force: true })
  await page.getByLabel('Address').fill(server)

  await test.step('the preview shows the model and the file', async () => {
    await page.getByRole('button', { name: 'Preview changes' }).click()
    const preview = page.getByRole('region', { name: 'Preview changes' })
    await expect(preview.getByText(server, { exact: true })).toBeVisible()
    await expect(preview.getByRole('row').filter({ hasText: `server ${server}` })).toContainText('added')
  })

  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('link', { name: server })).toBeVisible()
  await expect(page.getByText('The change is live.')).toBeVisible()
  await expectAccessible(page)

  await test.step('the audit entry arrives without a reload', async () => {
    const row = audit.getByRole('row').filter({ hasText: server }).first()
    await expect(row).toContainText('NTP server created')
    await expect(row).toContainText('admin@example.com')
  })

  await test.step('chronyd has it', async () => {
    await expect(page.getByRole('status', { name: 'State of the gateway' })).toContainText('Everything is live')
    await expect.poll(() => onGateway('chronyc', '-n', '-c', 'sources')).toContain(server)
    await page.goto('/services/ntp')
    await expect(page.getByRole('cell', { name: server })).toBeVisible()
  })
})

test('the files on the gateway can be read', async ({ page }) => {
  await haveServer()
  await page.goto('/system/components')
  await page.getByRole('table').getByRole('link', { name: 'ntp' }).click()
  await expect(page.getByText('No pending changes.')).toBeVisible()
  await expect(page.getByText(`server ${server}`)).toBeVisible()
})

test.describe('bad input', () => {
  test.use({ expected: [400] })

  test('is reported at its field, and nothing is lost', async ({ page }) => {
    await page.goto('/services/ntp/servers/new')
    await page.getByLabel('Address').fill('not a host')
    await page.getByLabel('Address').press('Control+Enter')
    await expect(page.getByLabel('Address')).toHaveAttribute('aria-invalid', 'true')
    await expect(page.getByLabel('Address')).toHaveValue('not a host')
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()
    await page.getByRole('button', { name: 'Cancel' }).click()
    await expect(page.getByLabel('Address')).toHaveValue('not a host')
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()
    await page.getByRole('button', { name: 'Leave' }).click()
    await expect(page).toHaveURL(/\/servers$/)
  })
})

test.describe('two people', () => {
  test.use({ expected: [412] })

  test('do not overwrite each other', async ({ page, context }) => {
    await haveServer()
    await page.goto('/services/ntp/servers')
    await page.getByRole('link', { name: server }).click()
    await page.getByLabel('Preferred').check({ force: true })

    const other = await context.newPage()
    await other.goto(page.url())
    await other.getByLabel('Quick start').uncheck({ force: true })
    await other.getByRole('button', { name: 'Save' }).click()
    await expect(other.getByRole('dialog')).toBeHidden()

    // The notification may arrive before or after the save; either way nothing is overwritten.
    await page.getByRole('button', { name: 'Save' }).click()
    await expect(page.getByText('Someone else changed this')).toBeInViewport()
    await expect(page.getByText('admin@example.com changed: Quick start.')).toBeVisible()
    await page.getByRole('button', { name: 'Load the new version' }).click()
    await expect(page.getByLabel('Quick start')).not.toBeChecked()
    await expect(page.getByLabel('Preferred')).toBeChecked()
    await page.getByRole('button', { name: 'Save' }).click()
    await expect(page.getByRole('dialog')).toBeHidden()
  })
})

test('a server can be found in the palette and deleted', async ({ page }) => {
  await haveServer()
  await page.goto('/')
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
  await page.keyboard.press('Control+K')
  await page.getByPlaceholder('Search pages, objects and actions…').fill(server)
  await page.getByRole('button', { name: server }).click()
  await expect(page.getByLabel('Address')).toHaveValue(server)
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Delete' }).click()
  await expectAccessible(page)
  await page
    .getByRole('dialog', { name: `Delete ${server}?` })
    .getByRole('button', { name: 'Delete' })
    .click()
  await expect(page).toHaveURL(/\/servers$/)
  await expect(page.getByRole('link', { name: server })).toHaveCount(0)
})

test('settings are previewed and saved', async ({ page }) => {
  await page.goto('/services/ntp/settings')
  const step = page.getByLabel('Step the clock')
  const before = await step.inputValue()
  for (const value of ['0.5 5', before]) {
    await step.fill(value)
    await page.getByRole('button', { name: 'Preview changes' }).click()
    await expect(page.getByRole('region', { name: 'Preview changes' }).getByRole('row').first()).toBeVisible()
    await page.getByRole('button', { name: 'Save' }).click()
    await expectSaved(page)
  }
})
