import type { Page } from '@playwright/test'
import { byAPI, enrol, expect, makeUser, pages, schemes, screenshots, settled, test, typePassword } from './gateway'

const sizes = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } }
let anna = { email: '', password: '' }

// A console that is in use makes the better pictures.
test.beforeAll(async () => {
  anna = await makeUser('anna', 'admin')
  await enrol(anna)
  await makeUser('ben')
  await byAPI(async (api) => {
    const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()
    await api.post('/api/v1/api-tokens', { data: { name: 'inventory', role: 'viewer', expires_at: inDays(90) } })
    await api.post('/api/v1/api-tokens', { data: { name: 'terraform', role: 'admin', expires_at: null } })
    // In the lab this one answers, and the clock follows it.
    await api.post('/api/v1/ntp/pools', { data: { kind: 'server', address: '198.51.100.2', prefer: true } })
    await expect
      .poll(async () => (await (await api.get('/api/v1/ntp/status')).json()).data.synchronised, { timeout: 20_000 })
      .toBe(true)
      .catch(() => {})
  })
})

/** What is seen only after a step or two. */
const further: Record<string, (page: Page) => Promise<void>> = {
  'login-second': async (page) => {
    await page.context().clearCookies()
    await typePassword(page, anna)
    await expect(page.getByLabel('Code', { exact: true })).toBeVisible()
  },
  'profile-app-setup': async (page) => {
    await page.goto('/profile/two-factor')
    await page.getByRole('button', { name: 'Set up an app' }).click()
    await expect(page.getByRole('img', { name: 'QR code' })).toBeVisible()
  },
}

for (const colorScheme of schemes) {
  for (const [device, viewport] of Object.entries(sizes)) {
    test.describe(`${colorScheme} ${device}`, () => {
      test.use({ colorScheme, viewport })
      const suffix = device === 'phone' ? '-phone' : ''
      const take = async (page: Page, name: string) => {
        await settled(page)
        await page.screenshot({ path: `${screenshots}/${name}-${colorScheme}${suffix}.png` })
      }
      for (const [name, path] of Object.entries({ ...pages, login: '/login' })) {
        test(name, async ({ page }) => {
          await page.goto(path)
          // The charts of the overview need a few samples before they show anything.
          if (name === 'overview') await page.waitForTimeout(10_000)
          await take(page, name)
        })
      }
      for (const [name, go] of Object.entries(further)) {
        test(name, async ({ page }) => {
          await go(page)
          await take(page, name)
        })
      }
    })
  }
}
