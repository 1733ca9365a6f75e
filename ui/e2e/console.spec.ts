import type { Locator } from '@playwright/test'
import { clear, expect, expectAccessible, make, read, settled, sizes, test } from './gateway'

// What all pages have in common.

/** Touch targets must be at least this high, and as wide unless they fill a whole line. */
async function expectForFingers(targets: Locator, width = 44) {
  await expect(targets.first()).toBeVisible()
  for (const target of await targets.all()) {
    const box = await target.boundingBox()
    const what = await target.evaluate((element) => element.outerHTML)
    expect(box?.height, what).toBeGreaterThanOrEqual(44)
    expect(box?.width, what).toBeGreaterThanOrEqual(width)
  }
}

test.describe('on a phone', () => {
  test.use({ viewport: sizes.phone })

  test('the navigation folds away', async ({ page }) => {
    await page.goto('/')
    await settled(page)
    await expectForFingers(page.getByRole('banner').locator(':is(button, a):visible:not([role=status] *)'))
    await page.getByRole('button', { name: 'Open navigation' }).click()
    await expectForFingers(page.getByRole('dialog').getByRole('navigation').getByRole('link'), 0)
    await page.getByRole('link', { name: 'Users' }).click()
    await expect(page.getByRole('heading', { level: 1, name: 'Users' })).toBeVisible()
    await expect(page.getByRole('dialog')).toBeHidden()
  })
})

test('the palette is accessible', async ({ page }) => {
  await page.goto('/')
  await settled(page)
  await page.keyboard.press('Control+K')
  await expect(page.getByPlaceholder('Search pages, objects and actions…')).toBeFocused()
  await expectAccessible(page)
})

test('the palette finds things and pages by their names', async ({ page }) => {
  const tunnel = 'wg-palette'
  await clear('/tunnel/interfaces', tunnel)
  await make('/tunnel/interfaces', { name: tunnel, address_cidr: '10.91.0.1/24' })
  await page.goto('/')
  await settled(page)
  const search = page.getByPlaceholder('Search pages, objects and actions…')
  const opens = async (text: string, action: string, form: string) => {
    await page.keyboard.press('Control+K')
    await search.fill(text)
    await page.getByRole('button', { name: action }).click()
    await expect(page.getByRole('dialog', { name: form })).toBeVisible()
    await page.keyboard.press('Escape')
    await expect(page.getByRole('dialog')).toBeHidden()
  }
  await page.keyboard.press('Control+K')
  await search.fill('port forward')
  await expect(page.getByRole('button', { name: 'NAT Firewall' })).toBeVisible()
  await page.keyboard.press('Escape')
  await opens('port forward', 'New port forward', 'New port forward')
  await opens('masquerade', 'New NAT rule', 'New NAT rule')
  await opens('guest network', 'New network', 'New network')
  await opens('new peer', `New peer ${tunnel}`, 'New peer')
  await clear('/tunnel/interfaces', tunnel)
})

test('the keyboard opens a row, gets the focus back, and has a list of shortcuts', async ({ page }) => {
  await page.goto('/firewall/services')
  await settled(page)
  const links = page.getByRole('table').getByRole('cell').getByRole('link')
  await links.first().focus()
  await page.keyboard.press('ArrowDown')
  await expect(links.nth(1)).toBeFocused()
  await page.keyboard.press('Enter')
  await expect(page.getByRole('dialog')).toBeVisible()
  await page.keyboard.press('Escape')
  await expect(page.getByRole('dialog')).toBeHidden()
  await expect(links.nth(1)).toBeFocused()
  await page.keyboard.press('?')
  await expect(page.getByRole('dialog', { name: 'Keyboard shortcuts' })).toContainText('Save the form')
  await expectAccessible(page)
})

for (const [name, size] of Object.entries({
  'on a desk': sizes.desk,
  'at twice its size': sizes.enlarged,
  'on a phone': sizes.phone,
}))
  test(`a form's title, buttons and focused field stay visible ${name}`, async ({ page }) => {
    await page.setViewportSize(size)
    await page.goto('/proxy/backends/new')
    const dialog = page.getByRole('dialog')
    await expect(dialog.getByRole('button', { name: 'Save' })).toBeInViewport({ ratio: 1 })
    for (const field of await dialog.getByRole('textbox').all()) {
      await field.focus()
      const covered = await field.evaluate((input) => {
        const { left, top, width, height } = input.getBoundingClientRect()
        const found = document.elementFromPoint(left + width / 2, top + height / 2)
        return found !== input && !input.contains(found)
      })
      expect(covered, await field.getAttribute('name').then(String)).toBe(false)
    }
    await expect(dialog.getByRole('button', { name: 'Save' })).toBeInViewport({ ratio: 1 })
  })

test('reduced motion is respected', async ({ page }) => {
  await page.addInitScript(() => {
    const seen: string[] = []
    Object.assign(window, { moved: seen })
    const note = ({ target, type }: Event) => {
      for (const { effect } of (target as Element).getAnimations())
        if (Number(effect?.getComputedTiming().duration) > 1) seen.push(`${type} ${(target as Element).className}`)
    }
    for (const type of ['transitionrun', 'animationstart']) document.addEventListener(type, note, true)
  })
  const moved = () => page.evaluate(() => (window as unknown as { moved: string[] }).moved)
  const openForm = async () => {
    await page.goto('/firewall/zones')
    await settled(page)
    await page.getByRole('link', { name: 'Add a zone' }).click()
    await expect(page.getByRole('dialog')).toBeVisible()
    await settled(page)
  }
  await page.emulateMedia({ reducedMotion: 'no-preference' })
  await openForm()
  expect(await moved()).not.toEqual([])
  await page.emulateMedia({ reducedMotion: 'reduce' })
  await openForm()
  expect(await moved()).toEqual([])
})

test("the load charts start with the gateway's history", async ({ page }) => {
  const remembered = async () => (await read<{ points: object[] }>('/system/resources/history')).points.length
  await expect.poll(remembered).toBeGreaterThan(1)
  await page.goto('/')
  await settled(page)
  const chart = page.getByRole('img', { name: 'Load in the last hour' }).locator('canvas')
  // Only the line of the chart has this colour.
  const coloured = () =>
    chart.evaluate((canvas: HTMLCanvasElement) => {
      const { data } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height)
      return data.some((_, at) => at % 4 === 0 && data[at + 2]! > data[at]! + 60)
    })
  await expect.poll(coloured).toBe(true)
})

test('a tags field has one frame for the focus', async ({ page }) => {
  await page.goto('/services/dns/settings')
  const input = page.getByLabel('Listen on').first()
  await input.focus()
  expect(await input.evaluate((element) => getComputedStyle(element).outlineStyle)).toBe('none')
})

test('sections of the navigation fold, and stay folded', async ({ page }) => {
  await page.goto('/')
  const link = page.getByRole('link', { name: 'Backends' })
  await page.getByRole('button', { name: 'Proxy' }).click()
  await expect(link).toHaveCount(0)
  await page.reload()
  await expect(page.getByRole('button', { name: 'Proxy' })).toHaveAttribute('aria-expanded', 'false')
  await page.goto('/proxy/domains')
  await expect(link).toBeVisible()
})

test('the navigation is a rail of icons on narrow screens, and if chosen', async ({ page }) => {
  const link = page.getByRole('link', { name: 'Backends' })
  const width = async () => (await link.boundingBox())?.width
  await page.setViewportSize({ width: 1000, height: 800 })
  await page.goto('/')
  await expect.poll(width).toBeLessThan(60)
  await expectAccessible(page)
  await link.click()
  await expect(page.getByRole('heading', { level: 1, name: 'Backends' })).toBeVisible()
  await page.setViewportSize(sizes.desk)
  await expect.poll(width).toBeGreaterThan(100)
  await page.getByRole('button', { name: 'Display' }).click()
  await page.getByRole('menuitem', { name: 'Narrow navigation' }).click()
  await expect.poll(width).toBeLessThan(60)
  await page.reload()
  await expect.poll(width).toBeLessThan(60)
})

test('the first Tab skips the navigation, and a newly opened page has the focus on its title', async ({ page }) => {
  await page.goto('/firewall/zones')
  await settled(page)
  await page.keyboard.press('Tab')
  await expect(page.getByRole('link', { name: 'Skip to content' })).toBeFocused()
  await page.keyboard.press('Enter')
  await expect(page.getByRole('main')).toBeFocused()
  await page.keyboard.press('Tab')
  await expect(page.getByRole('main').locator(':focus')).toHaveCount(1)
  await page.getByRole('link', { name: 'Backends' }).focus()
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { level: 1, name: 'Backends' })).toBeFocused()
})

test('a list is searched while typing, letter by letter', async ({ page }) => {
  await page.goto('/firewall/services')
  const field = page.getByRole('textbox', { name: 'Search this list' })
  const names = page.getByRole('table').locator('[data-row-link]')
  await field.pressSequentially('https')
  await expect(field).toHaveValue('https')
  await expect(page).toHaveURL(/[?&]q=https$/)
  await expect(names.filter({ hasNotText: /https/i })).toHaveCount(0)
  await page.getByRole('button', { name: 'Clear search' }).click()
  await expect(field).toHaveValue('')
  await expect(names.filter({ hasNotText: /https/i })).not.toHaveCount(0)
})

test('compact tables can be chosen, and the choice is kept', async ({ page }) => {
  const heights = async () => {
    const rows = page.getByRole('table').first().getByRole('rowgroup').getByRole('row')
    await expect(rows.first()).toBeVisible()
    return rows.evaluateAll((all) => all.reduce((sum, row) => sum + row.getBoundingClientRect().height, 0))
  }
  await page.goto('/firewall/services')
  const before = await heights()
  await page.getByRole('button', { name: 'Display' }).click()
  await page.getByRole('menuitem', { name: 'Compact tables' }).click()
  expect(await heights()).toBeLessThan(0.8 * before)
  await page.reload()
  expect(await heights()).toBeLessThan(0.8 * before)
})

test('the scheme can be chosen, and the choice is kept', async ({ page }) => {
  await page.goto('/')
  await page.getByRole('button', { name: 'Display' }).click()
  await page.getByRole('menuitem', { name: 'Dark' }).click()
  await page.reload()
  await expect(page.locator('html')).toHaveAttribute('data-mantine-color-scheme', 'dark')
})

test('a missing page says so', async ({ page }) => {
  await page.goto('/no/such/page')
  await expect(page.getByRole('heading', { level: 1, name: 'Page not found.' })).toBeVisible()
})

test.describe('after an upgrade', () => {
  test.use({ expected: ['net::ERR_FAILED', 'could not be loaded'] })

  test('a page whose code is gone reloads once and continues', async ({ page }) => {
    await page.goto('/')
    await settled(page)
    let loads = 0
    page.on('load', () => loads++)
    await page.route('**/assets/SettingsPage-*.js', (route) => (loads === 0 ? route.abort() : route.continue()))
    await page.getByRole('link', { name: 'Settings', exact: true }).click()
    await expect(page.getByRole('heading', { level: 1, name: 'Settings' })).toBeVisible()
    expect(loads).toBe(1)
  })

  test('code that stays missing is an error after one reload, not a loop', async ({ page }) => {
    await page.goto('/')
    await settled(page)
    let loads = 0
    page.on('load', () => loads++)
    await page.route('**/assets/SettingsPage-*.js', (route) => route.abort())
    await page.getByRole('link', { name: 'Settings', exact: true }).click()
    await expect(page.getByRole('heading', { level: 1, name: 'This page failed to load.' })).toBeVisible()
    await settled(page)
    expect(loads).toBe(1)
  })
})
