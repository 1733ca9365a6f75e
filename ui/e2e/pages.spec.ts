import { test as base, type Page } from '@playwright/test'
import { expect, expectAccessible, expectNoSidewaysScroll, pages, settled, test, watch } from './gateway'

const desk = { width: 1280, height: 800 }
const phone = { width: 390, height: 844 }

// One page visits them all: what the browser has loaded and compiled once, it keeps.
base.describe(() => {
  let page: Page
  let problems: string[]

  base.beforeAll(async ({ browser }) => {
    page = await browser.newPage()
    problems = await watch(page)
  })

  for (const [name, path] of Object.entries(pages)) {
    base(`${name} is accessible in both schemes, without errors, and fits a phone`, async () => {
      await page.setViewportSize(desk)
      await page.emulateMedia({ colorScheme: 'light' })
      await page.goto(path)
      await settled(page)
      await expectAccessible(page)
      await page.emulateMedia({ colorScheme: 'dark' })
      await expect(page.locator('html')).toHaveAttribute('data-mantine-color-scheme', 'dark')
      await expectAccessible(page, { colours: true })
      await page.setViewportSize(phone)
      await expectNoSidewaysScroll(page)
      expect(problems.splice(0)).toEqual([])
    })
  }
})

test.describe('on a phone', () => {
  test.use({ viewport: phone })

  test('the navigation folds away', async ({ page }) => {
    await page.goto('/')
    await page.getByRole('button', { name: 'Open the navigation' }).click()
    await page.getByRole('link', { name: 'Users' }).click()
    await expect(page.getByRole('heading', { level: 1, name: 'Users' })).toBeVisible()
    await expect(page.getByRole('dialog')).toBeHidden()
  })
})

test('the palette is accessible', async ({ page }) => {
  await page.goto('/')
  await settled(page)
  await page.keyboard.press('Control+K')
  await expect(page.getByPlaceholder('Go to, find, do…')).toBeFocused()
  await expectAccessible(page)
})

test('the scheme can be chosen, and stays', async ({ page }) => {
  await page.goto('/')
  await page.getByRole('button', { name: 'Colour scheme' }).click()
  await page.getByRole('menuitem', { name: 'Dark' }).click()
  await page.reload()
  await expect(page.locator('html')).toHaveAttribute('data-mantine-color-scheme', 'dark')
})

test('a page that does not exist says so', async ({ page }) => {
  await page.goto('/no/such/page')
  await expect(page.getByRole('heading', { level: 1, name: 'There is no such page.' })).toBeVisible()
})

test.describe('after an upgrade', () => {
  test.use({ expected: ['net::ERR_FAILED', 'code could not be loaded'] })

  test('a page whose code is gone reloads once and goes on', async ({ page }) => {
    await page.goto('/')
    await settled(page)
    let loads = 0
    page.on('load', () => loads++)
    await page.route('**/assets/SettingsPage-*.js', (route) => (loads === 0 ? route.abort() : route.continue()))
    await page.getByRole('link', { name: 'Settings' }).click()
    await expect(page.getByRole('heading', { level: 1, name: 'Settings' })).toBeVisible()
    expect(loads).toBe(1)
  })

  test('code that stays away is an error after one reload, not a loop', async ({ page }) => {
    await page.goto('/')
    await settled(page)
    let loads = 0
    page.on('load', () => loads++)
    await page.route('**/assets/SettingsPage-*.js', (route) => route.abort())
    await page.getByRole('link', { name: 'Settings' }).click()
    await expect(page.getByRole('heading', { level: 1, name: 'This page failed to load.' })).toBeVisible()
    await page.waitForTimeout(1500)
    expect(loads).toBe(1)
  })
})
