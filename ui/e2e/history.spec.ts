import type { Locator, Page } from '@playwright/test'
import {
  baseURL,
  byAPI,
  clear,
  expect,
  expectAccessible,
  expectNoSidewaysScroll,
  logIn,
  make,
  makeUser,
  put,
  read,
  settled,
  test,
} from './gateway'

test.use({ keeps: false })

async function makeServer(address: string) {
  await clear('/ntp/pools', address)
  return make('/ntp/pools', { kind: 'server', address, minpoll: 6, maxpoll: 10 })
}

const barOf = (page: Page) => page.getByRole('region', { name: 'Change to confirm' })
const openIntent = (scope: Page | Locator) => scope.getByRole('button', { name: /^Reason and confirmation/ }).click()

/** Adds an address object, optionally with a time to confirm it. */
async function addObject(page: Page, name: string, seconds?: number) {
  await clear('/firewall/address-objects', name)
  await page.goto('/firewall/objects/new')
  await page.getByLabel('Name').fill(name)
  await page.getByLabel('Value').fill('192.0.2.7')
  if (seconds) {
    await openIntent(page)
    await page.getByLabel('Seconds to confirm').fill(String(seconds))
  } else {
    await expect(page.getByText('Reverts unless you confirm within 60 s')).toBeVisible()
  }
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await expect(barOf(page)).toContainText('Confirm your change: 1 address object created.')
}

/** The names of the address objects. Leaves pending changes unconfirmed. */
const objects = async () => {
  const path = '/api/v1/firewall/address-objects'
  const { data } = await byAPI(async (api) => (await api.get(path)).json(), { keep: false })
  return data.map(({ name }: { name: string }) => name)
}

test('a change is found in the history, and reverted although it was edited later', async ({ page }) => {
  const ticket = `4711-${test.info().retry}`
  const { id } = await makeServer('history-1.example.net')
  await page.goto(`/services/ntp/servers/${id}`)
  await page.getByLabel('Longest interval').fill('12')
  await openIntent(page)
  await page.getByRole('textbox', { name: 'Reason' }).fill(`Ticket ${ticket}: größere Abstände`)
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await expect(page.getByText('The change is live.')).toBeVisible()
  // Someone else edits the same field and another one.
  await put(`/ntp/pools/${id}`, { maxpoll: 13, iburst: true })

  await page.getByRole('link', { name: 'History', exact: true }).click()
  const table = page.getByRole('table', { name: 'Changes' })
  const row = table.getByRole('row').filter({ hasText: `Ticket ${ticket}: größere Abstände` })
  await expect(row).toContainText('1 NTP server changed')
  await page.getByLabel('Reason').fill(ticket)
  await expect(table.getByRole('row')).toHaveCount(2)
  await expect(page).toHaveURL(new RegExp(`reason=${ticket}`))

  await row.getByRole('link').click()
  const drawer = page.getByRole('dialog')
  await expect(drawer).toContainText('Longest interval')
  await expect(drawer.locator('del')).toHaveText('10')
  await expect(drawer.locator('ins')).toHaveText('12')
  await expect(drawer.getByRole('link', { name: 'NTP', exact: true })).toBeVisible()
  await expectAccessible(page)

  await test.step('the audit entry and the change set link to each other', async () => {
    await drawer.getByRole('link', { name: 'NTP server changed' }).click()
    await page.getByRole('link', { name: 'View in the history' }).click()
    await expect(drawer).toContainText('Longest interval')
  })

  await drawer.getByRole('link', { name: 'Revert…' }).click()
  await expect(drawer).toContainText('1 later edit is in the way.')
  await expect(drawer.getByRole('button', { name: 'Revert', exact: true })).toBeDisabled()
  await drawer.getByLabel('Revert to 10').check()
  await expect(drawer.getByRole('region', { name: 'Preview changes' }).locator('ins')).toHaveText('10')
  await expectAccessible(page)
  await openIntent(drawer)
  await drawer.getByRole('textbox', { name: 'Reason' }).fill('It was wrong.')
  await drawer.getByRole('button', { name: 'Revert', exact: true }).click()
  await expect(page.getByText('Reverted', { exact: true })).toBeVisible()
  expect(await read(`/ntp/pools/${id}`)).toMatchObject({ maxpoll: 10, iburst: true })
  await page.goto(`/operations/history?reason=${ticket}`)
  await expect(row).toContainText('reverted')
})

test.describe('when someone else was faster', () => {
  test.use({ expected: [412] })

  test('a revert is refused, and previewed again', async ({ page }) => {
    const { id } = await makeServer('history-2.example.net')
    await put(`/ntp/pools/${id}`, { maxpoll: 11 })
    const [set] = await read(`/change-sets?kind=ntp.pool&id=${id}`)
    await page.goto(`/operations/history/${set?.id}/revert`)
    const revert = page.getByRole('button', { name: 'Revert', exact: true })
    await expect(revert).toBeEnabled()
    await put(`/ntp/pools/${id}`, { minpoll: 5 })
    await revert.click()
    await expect(page.getByText('Another change was made in the meantime.')).toBeVisible()
    await revert.click()
    await expect(page.getByText('Reverted', { exact: true })).toBeVisible()
    expect(await read(`/ntp/pools/${id}`)).toMatchObject({ maxpoll: 10, minpoll: 5 })
  })
})

test('a change that is confirmed stays', async ({ page }) => {
  await addObject(page, 'kept-host')
  const bar = barOf(page)
  await expect(bar).toContainText('The gateway answers over a new connection.')
  await expect(bar.getByRole('timer')).toContainText(/in \d+ s/)
  await settled(page)
  await expectAccessible(page)

  await test.step('the bar is still there after a reload, and on a phone', async () => {
    await page.reload()
    await expect(bar).toContainText('Confirm your change: 1 address object created.')
    await page.setViewportSize({ width: 390, height: 844 })
    await expectNoSidewaysScroll(page)
    await page.setViewportSize({ width: 1280, height: 800 })
  })

  // A drawer leaves room for the bar.
  await page.getByRole('link', { name: 'Add an address' }).click()
  await expect(page.getByLabel('Name')).toBeVisible()

  await bar.getByRole('button', { name: 'Keep' }).click()
  await expect(page.getByText('The change is kept')).toBeVisible()
  await expect(bar).toBeHidden()
  expect(await objects()).toContain('kept-host')
  const [set] = await read('/change-sets?kind=firewall.address-object')
  expect(set?.state).toBe('confirmed')
})

test('an unconfirmed change is reverted, and everyone is told', async ({ page, browser }) => {
  const other = await browser.newPage({ baseURL, ignoreHTTPSErrors: true, storageState: undefined })
  await logIn(other, await makeUser('colleague', 'admin'))
  await addObject(page, 'brief-host', 60)
  await expect(barOf(other)).toContainText('must confirm a change: 1 address object created.')
  expect(await objects()).toContain('brief-host')
  for (const one of [page, other]) {
    await expect(barOf(one)).toBeHidden({ timeout: 120_000 })
    const told = one.getByRole('status', { name: 'Change to confirm' })
    await expect(told).toContainText('Reverted: 1 address object created. It was not confirmed in time.')
    await told.getByRole('button', { name: 'Dismiss' }).click()
    await expect(told).toBeHidden()
  }
  expect(await objects()).not.toContain('brief-host')
  await other.close()
})

test('a change can be undone without waiting', async ({ page }) => {
  await addObject(page, 'undone-host')
  await barOf(page).getByRole('button', { name: 'Undo now' }).click()
  await expect(page.getByText('The change was reverted')).toBeVisible()
  await expect(barOf(page)).toBeHidden()
  await expect(page.getByRole('table').getByText('undone-host')).toBeHidden()
  expect(await objects()).not.toContain('undone-host')
})

test('a row shows its history, and can be reverted to an earlier state', async ({ page }) => {
  const { id } = await makeServer('history-3.example.net')
  await put(`/ntp/pools/${id}`, { maxpoll: 11 })
  await put(`/ntp/pools/${id}`, { maxpoll: 12 })
  await page.goto(`/services/ntp/servers/${id}`)
  await page.getByRole('dialog').getByRole('button', { name: 'History' }).click()
  const entries = page.getByRole('dialog').getByRole('listitem')
  await expect(entries).toHaveCount(3)
  await expect(entries.nth(0)).toContainText('current')
  await entries.nth(2).getByRole('button', { name: 'As it was' }).click()
  await expect(entries.nth(2).getByRole('definition').filter({ hasText: /^10$/ }).first()).toBeVisible()
  await expectAccessible(page)
  await entries.nth(1).getByRole('button', { name: 'Revert to this…' }).click()
  await entries.nth(1).getByRole('button', { name: 'Revert', exact: true }).click()
  await expect(page.getByText('Reverted', { exact: true })).toBeVisible()
  await expect(page.getByLabel('Longest interval')).toHaveValue('11')
  await expect(entries).toHaveCount(4)
})

test('some kinds can be reverted to a point in time', async ({ page }) => {
  const { id } = await makeServer('history-4.example.net')
  // The field has whole seconds, so wait for the next one: it lies between the two changes.
  const at = new Date(Math.ceil(Date.now() / 1000) * 1000)
  await expect.poll(() => Date.now()).toBeGreaterThan(at.getTime())
  await put(`/ntp/pools/${id}`, { maxpoll: 11 })
  const local = new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
  await page.goto('/operations/history')
  await page.getByRole('link', { name: 'Go back to a time…' }).click()
  await page.getByLabel('Time', { exact: true }).fill(local)
  await page.getByRole('dialog').getByLabel('Kinds').click()
  await page.getByRole('option', { name: 'NTP server' }).click()
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Preview changes' }).click()
  const plan = page.getByRole('region', { name: 'Preview changes' })
  await expect(plan).toContainText('history-4.example.net')
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Revert', exact: true }).click()
  await expect(page.getByText('Reverted', { exact: true })).toBeVisible()
  expect(await read(`/ntp/pools/${id}`)).toMatchObject({ maxpoll: 10 })
})

test('the retention of the history is a setting', async ({ page }) => {
  await put('/system/retention', { history_days: 365 })
  await page.goto('/system/settings')
  const days = page.getByLabel('History (days)')
  await expect(days).toHaveValue('365')
  await days.fill('400')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await expect(page.getByText('Saved')).toBeVisible()
  expect(await read('/system/retention')).toMatchObject({ history_days: 400 })
})
