import { execFileSync, spawnSync } from 'node:child_process'
import type { Page } from '@playwright/test'
import { clear, disconnect, expect, expectAccessible, make, test } from './gateway'

// Each test continues where the previous one stopped.
test.describe.configure({ mode: 'serial' })

// The browser's machine is on the LAN. A second client next to it has the MAC address of a real vendor.
const link = 'guest0'
const mac = '00:00:0c:12:34:56'
const address = '10.10.0.77'
const ip = (...words: string[]) => execFileSync('ip', words, { stdio: 'pipe' })
const page80 = ['-s', '-o', '/dev/null', '--interface', link, '--max-time', '3', 'http://10.10.0.1/']
const answered = () => spawnSync('curl', page80).status === 0
const row = (page: Page, text: string) => page.getByRole('row').filter({ hasText: text })
const form = (page: Page) => page.getByRole('dialog')

/** Removes the block and the reservation of an earlier attempt. */
async function clean() {
  for (const path of ['/firewall/rules', '/firewall/address-groups']) await clear(path, 'Blocked clients')
  await clear('/dhcp/subnets', '10.10.0.0/24')
  disconnect(link)
}

test.beforeAll(async () => {
  await clean()
  ip('link', 'add', link, 'link', 'eth0', 'address', mac, 'type', 'macvlan', 'mode', 'bridge')
  ip('addr', 'add', `${address}/24`, 'dev', link)
  ip('link', 'set', link, 'up')
})
test.afterAll(clean)

const open = async (page: Page) => {
  await expect.poll(answered).toBe(true)
  await page.goto('/network/clients')
  await page.getByRole('link', { name: address }).click()
}

test('a client is found by its address, with its vendor and zone', async ({ page }) => {
  await expect.poll(answered).toBe(true)
  await page.goto('/network/clients')
  const client = row(page, address)
  await expect(client).toContainText(mac)
  await expect(client).toContainText('Cisco Systems')
  await expect(client).toContainText('lan')
  await expect(client).toContainText('online')
  await page.getByLabel('Search this list').fill('0000.0c12.3456')
  await expect(client).toBeVisible()
  await page.getByLabel('Search this list').fill('nobody')
  await expect(page.getByText('Nothing matches.', { exact: false })).toBeVisible()
  await page.getByLabel('Search this list').fill('')
  await expectAccessible(page)
  await page.getByRole('link', { name: address }).click()
  await expect(form(page)).toContainText('Neighbours')
  await expectAccessible(page)
  await form(page).getByRole('link', { name: 'Explain its traffic' }).click()
  await expect(page.getByLabel('Source address')).toHaveValue(address)
})

test('a client is blocked and unblocked', async ({ page }) => {
  await open(page)
  await form(page).getByRole('link', { name: 'Block' }).click()
  await expect(form(page)).toContainText(`drops everything that ${address} sends`)
  await form(page).getByRole('button', { name: 'Preview changes' }).click()
  await expect(form(page).getByRole('region', { name: 'Preview changes' })).toContainText('Blocked clients')
  await expectAccessible(page)
  await form(page).getByRole('button', { name: 'Block', exact: true }).click()
  await expect(form(page)).toContainText('The firewall drops everything from this client')
  await expect.poll(answered).toBe(false)
  await form(page).getByRole('button', { name: 'Unblock' }).click()
  await page.getByRole('dialog').last().getByRole('button', { name: 'Unblock' }).click()
  await expect(form(page).getByRole('link', { name: 'Block' })).toBeVisible()
  await expect.poll(answered).toBe(true)
})

test('a client gets a name and a fixed address', async ({ page }) => {
  const range = { range_start: '10.10.0.128', range_end: '10.10.0.199' }
  await make('/dhcp/subnets', { interface: 'lan0', cidr: '10.10.0.0/24', ...range })
  await open(page)
  await form(page).getByRole('link', { name: 'Reserve address and name' }).click()
  await expect(form(page).getByLabel('MAC address')).toHaveValue(mac)
  await form(page).getByLabel('Name').fill('guest-tv')
  await form(page).getByRole('button', { name: 'Save' }).click()
  // The row may appear before the form has heard of the save, and leaving a page with an unsaved form asks first.
  await expect(form(page)).toBeHidden()
  await expect(row(page, 'guest-tv')).toBeVisible()
  await page.goto('/network/clients')
  await expect(row(page, address)).toContainText('guest-tv')
  await page.getByRole('link', { name: 'guest-tv' }).click()
  await expect(form(page).getByRole('link', { name: 'Change name' })).toBeVisible()
})
