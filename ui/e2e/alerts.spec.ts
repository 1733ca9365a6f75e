import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Page } from '@playwright/test'
import { clear, expect, expectAccessible, make, put, read, settled, test } from './gateway'

test.describe.configure({ mode: 'serial' })

// A webhook receiver on the LAN, on the browser's machine.
const got: Record<string, string>[] = []
const receiver = createServer((request, response) => {
  let text = ''
  request.on('data', (part) => {
    text += part
  })
  request.on('end', () => {
    got.push({ ...JSON.parse(text), token: request.headers['x-token'] })
    response.end()
  })
})
let target = ''
/** Deletes channels and mutes, and resets the disk threshold so that no disk alert is open. */
async function clean() {
  for (const path of ['/alerts', '/alert-mutes']) await clear(path)
  await tellFrom(90)
  await expect.poll(async () => (await read('/alerts/open')).some(({ kind }) => kind === 'system.disk')).toBe(false)
}
/** Sets the disk usage that raises an alert, and runs the check. */
async function tellFrom(percent: number) {
  await put('/alerts/settings', { disk_warning_percent: percent })
  await make('/system/jobs/watch.machine/run')
}

test.beforeAll(async () => {
  await clean()
  await new Promise<void>((done) => receiver.listen(0, '10.10.0.2', done))
  target = `http://10.10.0.2:${(receiver.address() as AddressInfo).port}/hook`
})
test.afterAll(async () => {
  await clean()
  receiver.close()
})

const form = (page: Page) => page.getByRole('dialog')
const field = (page: Page, name: string) => form(page).getByRole('textbox', { name, exact: true })

test.describe('a channel', () => {
  test.use({ expected: [400] })

  test('is created, tested, and notified', async ({ page }) => {
    await page.goto('/operations/alerts/channels')
    await expect(page.getByText('No channels')).toBeVisible()
    await page.getByRole('link', { name: 'Add a channel' }).click()
    await field(page, 'Name').fill('Team')
    await field(page, 'Target').fill('ftp://10.10.0.2')
    await form(page).getByRole('button', { name: 'Add a header' }).click()
    await form(page).getByLabel('Name, row 1').fill('X-Token')
    await form(page).getByLabel('Value, row 1').fill('s3cret-token')
    await form(page).getByRole('button', { name: 'Save', exact: true }).click()
    await expect(form(page).getByText(/must be a URL/)).toBeVisible()
    await field(page, 'Target').fill(target)
    await settled(page)
    await expectAccessible(page)
    await form(page).getByRole('button', { name: 'Save', exact: true }).click()
    await expect(form(page)).toBeHidden()
    await page.getByRole('button', { name: 'Test: Team' }).click()
    await expect(page.getByText('The test arrived at Team')).toBeVisible()
    expect(got.at(-1)).toMatchObject({ kind: 'alert.test', severity: 'info', token: 's3cret-token' })

    // Stored secrets are not shown, and saving the form keeps them.
    await page.getByRole('link', { name: 'Team' }).click()
    await expect(form(page).getByLabel('Value, row 1')).toHaveValue('***SET***')
    await field(page, 'Name').fill('Operations')
    await form(page).getByRole('button', { name: 'Save', exact: true }).click()
    await expect(form(page)).toBeHidden()
    await page.getByRole('button', { name: 'Test all channels' }).click()
    await expect(page.getByText('The test arrived at Operations')).toBeVisible()
    expect(got.at(-1)).toMatchObject({ token: 's3cret-token' })
  })

  test('for email is refused if something is missing', async ({ page }) => {
    await page.goto('/operations/alerts/channels/new')
    await form(page).getByText('E-mail', { exact: true }).click()
    await field(page, 'Target').fill('ops@example.net')
    await expect(field(page, 'Port')).toHaveValue('587')
    await form(page).getByText('TLS', { exact: true }).click()
    await expect(field(page, 'Port')).toHaveValue('465')
    await field(page, 'User').fill('gateway')
    await form(page).getByRole('button', { name: 'Save', exact: true }).click()
    await expect(field(page, 'Server')).toHaveAttribute('aria-invalid', 'true')
    await expect(form(page).getByLabel('Password', { exact: true }).first()).toHaveAttribute('aria-invalid', 'true')
    await expectAccessible(page)
  })
})

test('a problem is reported, shown, and resolved', async ({ page }) => {
  // Every machine uses more than one percent of its disk.
  await page.goto('/')
  await settled(page)
  await tellFrom(1)
  await page.getByRole('button', { name: /^Alerts: \d+ open/ }).click()
  const bell = page.getByRole('dialog', { name: 'Alerts' })
  await expect(bell.getByText('Disk').first()).toBeVisible({ timeout: 60_000 })
  await expectAccessible(page)
  await bell.getByRole('link', { name: /Disk/ }).first().click()
  await expect(form(page)).toContainText('of the disk is in use')
  await expect(form(page).getByText('sent', { exact: true })).toBeVisible({ timeout: 60_000 })
  expect(got.some(({ kind }) => kind === 'system.disk')).toBe(true)
  await expectAccessible(page)
  await page.goto('/')
  await expect(page.getByRole('region', { name: 'Operations' })).toContainText('Disk')
  await tellFrom(90)
  await page.goto('/operations/alerts')
  await expect(page.getByText('resolved').first()).toBeVisible({ timeout: 60_000 })
  await expect.poll(() => got.some(({ text }) => text?.startsWith('[RESOLVED] Disk')), { timeout: 60_000 }).toBe(true)
})

test('a kind is muted from an alert', async ({ page }) => {
  await page.goto('/operations/alerts?kind=system.disk')
  await page.getByRole('link', { name: 'Disk' }).first().click()
  await form(page).getByRole('link', { name: 'Mute this kind' }).click()
  await expect(form(page).getByLabel('Kind')).toHaveValue(/^system\.disk/)
  await form(page).getByLabel('8 hours').check()
  await field(page, 'Reason').fill('A new disk comes')
  await form(page).getByRole('button', { name: 'Save', exact: true }).click()
  await expect(form(page)).toBeHidden()
  await expect(page.getByRole('row', { name: /system\.disk/ })).toContainText('A new disk comes')
})

test('jobs show their last result, and can be run at once', async ({ page }) => {
  await page.goto('/operations/jobs')
  const row = page.getByRole('row', { name: /watch\.license/ })
  await expect(row).toContainText('done', { timeout: 60_000 })
  await row.getByRole('button', { name: /^Run now/ }).click()
  await expect(page.getByText('watch.license runs as soon as possible')).toBeVisible()
  await settled(page)
  await expectAccessible(page)
})
