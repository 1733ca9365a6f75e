import type { Page } from '@playwright/test'
import {
  baseURL,
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

const makeServer = (address: string) => make('/ntp/pools', { kind: 'server', address, minpoll: 6, maxpoll: 10 })
const servers = async () => (await read('/ntp/pools')).map(({ address }) => address)

const bar = (page: Page) => page.getByRole('region', { name: 'Draft', exact: true })
const row = (page: Page, address: string) =>
  page.getByRole('table', { name: 'NTP servers' }).getByRole('row').filter({ hasText: address })
const toDraft = (page: Page) => page.getByRole('button', { name: 'Add to draft' })

/** Logs in as a new user, whose draft no other test sees. */
async function drafter(page: Page, name: string) {
  await page.context().clearCookies()
  await logIn(page, await makeUser(name, 'admin'))
}

test('a whole site can be added to the draft', async ({ page }) => {
  await drafter(page, 'site-drafter')
  await page.goto('/proxy/domains/new')
  await page.getByRole('textbox', { name: 'Name' }).fill('draft.example.net')
  await page.getByLabel('Server address').fill('10.10.0.2')
  await toDraft(page).click()
  await expect(page.getByRole('dialog')).toBeHidden()
  await expect(bar(page)).toContainText('Your draft has 3 changes.')
})

test('changes of several pages are collected, conflict with others, and are applied at once', async ({ page }) => {
  await clear('/ntp/pools', 'draft-kept.example.net', 'draft-old.example.net', 'draft-newer.example.net')
  const kept = await makeServer('draft-kept.example.net')
  await makeServer('draft-old.example.net')
  await drafter(page, 'drafter')

  await page.goto('/services/ntp/servers/new')
  await page.getByLabel('Address').fill('draft-new.example.net')
  await toDraft(page).click()
  await expect(page.getByText('Added to your draft')).toBeVisible()
  await expect(row(page, 'draft-new.example.net')).toContainText('new in draft')
  await expect(bar(page)).toContainText('Your draft has 1 change.')

  await test.step('what is new can be changed before it is stored', async () => {
    await row(page, 'draft-new.example.net').getByRole('link').click()
    await expect(page.getByText('This is new in your draft.')).toBeVisible()
    await expect(page.getByRole('button', { name: 'Save', exact: true })).toHaveCount(0)
    await page.getByLabel('Address').fill('draft-newer.example.net')
    await settled(page)
    await expectAccessible(page)
    await toDraft(page).click()
    await expect(row(page, 'draft-newer.example.net')).toContainText('new in draft')
  })

  await row(page, 'draft-kept.example.net').getByRole('link').click()
  await page.getByLabel('Longest interval').fill('12')
  await toDraft(page).click()
  await expect(row(page, 'draft-kept.example.net')).toContainText('changed in draft')

  await row(page, 'draft-old.example.net').getByRole('link').click()
  await page.getByRole('button', { name: 'Delete' }).click()
  await page
    .getByRole('dialog', { name: /^Delete/ })
    .getByRole('button', { name: 'Add to draft' })
    .click()
  await expect(row(page, 'draft-old.example.net')).toContainText('deleted in draft')
  await expect(bar(page)).toContainText('Your draft has 3 changes.')
  await settled(page)
  await expectAccessible(page)
  expect(await servers()).toContain('draft-old.example.net')
  expect(await servers()).not.toContain('draft-newer.example.net')

  await test.step('the form of a changed row shows the change', async () => {
    await row(page, 'draft-kept.example.net').getByRole('link').click()
    await expect(page.getByText('Your draft changes this.')).toBeVisible()
    await expect(page.getByLabel('Longest interval')).toHaveValue('12')
    await page.getByRole('link', { name: 'Review the draft' }).last().click()
  })

  // Someone else changes the same field and another one.
  await put(`/ntp/pools/${kept.id}`, { maxpoll: 13, iburst: true })
  await page.reload()
  await expect(bar(page)).toHaveCount(0)
  const list = page.getByRole('listitem')
  await expect(list.filter({ hasText: 'draft-newer.example.net' })).toContainText('create')
  await expect(list.filter({ hasText: 'draft-kept.example.net' }).locator('ins')).toHaveText('12')
  await expect(list.filter({ hasText: 'draft-old.example.net' })).toContainText('delete')
  await expect(page.getByText('Someone else changed 1 thing')).toBeVisible()
  const apply = page.getByRole('button', { name: 'Apply draft' })
  await expect(apply).toBeDisabled()
  await settled(page)
  await expectAccessible(page)
  await page.setViewportSize({ width: 390, height: 844 })
  await expectNoSidewaysScroll(page)
  await page.setViewportSize({ width: 1280, height: 800 })

  await page.getByLabel('Take 12 from the draft').check()
  await page.getByRole('button', { name: /^Reason/ }).click()
  await page.getByRole('textbox', { name: 'Reason' }).fill('Ticket 4712: one go')
  await apply.click()
  await expect(page.getByText('Draft applied')).toBeVisible()
  await expect(page.getByText('Your draft is empty')).toBeVisible()
  expect(await read(`/ntp/pools/${kept.id}`)).toMatchObject({ maxpoll: 12, iburst: true })
  expect(await servers()).toContain('draft-newer.example.net')
  expect(await servers()).not.toContain('draft-old.example.net')
  const [set] = await read('/change-sets?reason=4712')
  expect(set?.kinds).toEqual([{ kind: 'ntp.pool', created: 1, updated: 1, deleted: 1 }])
})

test('a draft is discarded, and belongs to its user', async ({ page, browser }) => {
  await drafter(page, 'thrower')
  await page.goto('/services/ntp/servers/new')
  await page.getByLabel('Address').fill('draft-never.example.net')
  await toDraft(page).click()
  await expect(bar(page)).toBeVisible()

  const other = await browser.newPage({ baseURL, ignoreHTTPSErrors: true, storageState: undefined })
  await logIn(other, await makeUser('draft-viewer'))
  await other.goto('/operations/draft')
  await expect(other.getByText('Only administrators have a draft.')).toBeVisible()
  await other.close()

  await bar(page).getByRole('link', { name: 'Review the draft' }).click()
  await page.getByRole('button', { name: 'Throw away…' }).click()
  const question = page.getByRole('dialog')
  await expect(question).toContainText('1 change in your draft is lost.')
  await question.getByRole('button', { name: 'Throw away' }).click()
  await expect(page.getByText('Your draft is empty')).toBeVisible()
  expect(await servers()).not.toContain('draft-never.example.net')
})
