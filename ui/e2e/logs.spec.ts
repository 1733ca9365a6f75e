import type { Page } from '@playwright/test'
import {
  clear,
  clearAll,
  expect,
  expectAccessible,
  expectNoSidewaysScroll,
  make,
  makeAll,
  put,
  settled,
  test,
} from './gateway'

const entries = (page: Page) => page.getByRole('table', { name: 'Entries' }).getByRole('row')

/** A name that an attacker could choose. It appears in the audit log and in the service's own log. */
const hostile = '<img src=x onerror="document.title=1">'

/** Creates a zone with this description, and then changes the description. */
async function note(text: string) {
  const name = `logs-${crypto.randomUUID().slice(0, 8)}`
  const zone = await make('/firewall/zones', { name, description: text })
  await put(`/firewall/zones/${zone.id}`, { description: 'tidy' })
  noted.push(name)
  return zone
}
const noted: string[] = []
test.afterAll(() => clear('/firewall/zones', ...noted))

test.describe('the logs', () => {
  test('show all sources in one list, and keep their filters in the URL', async ({ page }) => {
    const zone = await note(hostile)
    await page.goto('/')
    await page.getByRole('link', { name: 'Logs', exact: true }).click()
    await expect(entries(page).nth(3)).toBeVisible()
    await expectAccessible(page)

    await page.getByLabel('Text').fill(zone.name.toUpperCase())
    await expect(page).toHaveURL(/text=LOGS/)
    await expect(entries(page).filter({ hasText: `firewall.zone.create ${zone.name}` })).toHaveCount(1)
    await page.reload()
    await expect(page.getByLabel('Text')).toHaveValue(zone.name.toUpperCase())
    const row = entries(page).filter({ hasText: `firewall.zone.update ${zone.name}` })
    await expect(row).toContainText('Audit')
    await expect(row).toContainText('info')

    await row.getByRole('link').click()
    const drawer = page.getByRole('dialog')
    await expect(drawer).toContainText('firewall.zone.update')
    await expectAccessible(page)
    await drawer.getByRole('link', { name: 'Open the audit entry' }).click()
    await expect(page).toHaveURL(/operations\/audit/)
    await expect(page.getByRole('dialog')).toContainText('tidy')
  })

  test('can be narrowed with the histogram, also by keyboard', async ({ page }) => {
    await page.goto('/operations/logs')
    const bars = page.getByRole('toolbar', { name: 'Entries over time' }).getByRole('button')
    await expect(bars.first()).toBeVisible()
    await expect(page.getByRole('figure')).toContainText(
      /All [\d,]+ entries that match|Only the newest 500 entries that match/,
    )
    await bars.first().focus()
    await page.keyboard.press('End')
    await expect(bars.last()).toBeFocused()
    await page.keyboard.press('Shift+ArrowLeft')
    await page.keyboard.press('Enter')
    await expect(page).toHaveURL(/since=.*until=|until=.*since=/)
    await page.getByRole('button', { name: 'All', exact: true }).click()
    await expect(page).not.toHaveURL(/since=/)

    // Rows can be reached and opened without a mouse.
    const links = entries(page).getByRole('link')
    await links.first().focus()
    await page.keyboard.press('ArrowDown')
    await expect(links.nth(1)).toBeFocused()
    await page.keyboard.press('Enter')
    await expect(page.getByRole('dialog')).toContainText('All fields')
    await page.keyboard.press('Escape')
    await expect(page.getByRole('dialog')).toBeHidden()
  })

  test('can be followed, paused and resumed', async ({ page }) => {
    await page.goto('/operations/logs')
    await page.getByRole('button', { name: 'Follow' }).click()
    await expect(page.getByText('up to date')).toBeVisible()
    const first = await note('a')
    await expect(entries(page).filter({ hasText: `firewall.zone.create ${first.name}` })).toHaveCount(1)
    await page.getByRole('button', { name: 'Pause' }).click()
    const second = await note('b')
    await expect(page.getByText(/paused, [1-9]/)).toBeVisible()
    await expect(entries(page).filter({ hasText: second.name })).toHaveCount(0)
    await expectAccessible(page)
    await page.getByRole('button', { name: 'Resume' }).click()
    await expect(entries(page).filter({ hasText: `firewall.zone.create ${second.name}` })).toHaveCount(1)
    await page.getByRole('button', { name: 'Stop following' }).click()
    await expect(page).not.toHaveURL(/live=/)
  })

  test.describe('a bad filter', () => {
    test.use({ expected: [400] })
    test('is reported at its field', async ({ page }) => {
      await page.goto('/operations/logs?since=2026-02-01T00:00:00&until=2026-01-01T00:00:00')
      await expect(page.getByText('must not be before since').first()).toBeVisible()
    })
  })

  test('the logs of a component are one click from its state', async ({ page }) => {
    await page.goto('/system/components/ntp')
    await page.getByRole('link', { name: 'View logs' }).click()
    await expect(page).toHaveURL(/operations\/logs\?sources=ntp/)
  })
})

test('LG-06 what strangers say is text', async ({ page }) => {
  const zone = await note(hostile)
  for (const path of [
    `/operations/logs?text=${zone.name}`,
    `/operations/audit?subject=${zone.name}`,
    '/operations/audit?view=changes',
    `/firewall/zones/${zone.id}`,
  ]) {
    await page.goto(path)
    await settled(page)
    await expect(page.locator('img[onerror]')).toHaveCount(0)
    await expect(page).not.toHaveTitle('1')
  }
  const policy = (await page.request.get('/')).headers()['content-security-policy'] ?? ''
  expect(policy).toContain("script-src 'self'")
  expect(policy).not.toContain('unsafe-inline')
})

test('the audit log answers what changed since yesterday', async ({ page }) => {
  const zone = await note('before')
  await put(`/firewall/zones/${zone.id}`, { description: 'in the end' })
  await page.goto('/operations/audit')
  await page.getByRole('button', { name: 'Changes since yesterday' }).click()
  await expect(page).toHaveURL(/view=changes/)
  const thing = page.getByRole('listitem').filter({ hasText: zone.name })
  await expect(thing).toContainText('created')
  await expect(thing).toContainText('in the end')
  await expect(thing).not.toContainText('tidy')
  await expectAccessible(page)
  await page.setViewportSize({ width: 390, height: 844 })
  await expectNoSidewaysScroll(page)
})

test('the audit log continues after a change with more rows than one page', async ({ page }) => {
  const zone = await note('before')
  const hosts = Array.from({ length: 250 }, (_, index) => ({
    kind: 'firewall.address-object',
    id: crypto.randomUUID(),
    body: { name: `${zone.name}-${index}`, kind: 'host', value: '192.0.2.7' },
  }))
  await makeAll(hosts)
  await page.goto(`/operations/audit?subject=${zone.name}`)
  const lines = page.getByRole('table', { name: 'Audit' }).getByRole('row')
  await expect(lines.filter({ hasText: '250 address objects created' })).toHaveCount(1)
  await expect(lines.filter({ hasText: 'Zone created' })).toHaveCount(1)
  await clearAll(hosts)
})
