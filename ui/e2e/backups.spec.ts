import { admin, clear, expect, expectAccessible, logIn, renewSession, settled, test } from './gateway'

test.describe.configure({ mode: 'serial' })
// The gateway is unreachable while it replaces its data.
test.use({ expected: [401, 404, 502, 503, 'net::ERR_', 'WebSocket'] })

const clean = async () => {
  await renewSession()
  await clear('/backup-remotes')
  await clear('/backups')
}
test.beforeAll(clean)
test.afterAll(clean)

test('a backup is made, verified, restored and deleted', async ({ page }) => {
  await page.goto('/')
  await settled(page)
  await page.getByRole('link', { name: 'Backups' }).click()
  await expect(page.getByText('No backups yet')).toBeVisible()
  await page.getByRole('button', { name: 'Back up now' }).click()
  const list = page.getByRole('table', { name: 'Backups' })
  await expect(list.getByText('not proven')).toBeVisible()

  const more = list.getByRole('button', { name: /gateway-/ })
  await more.click()
  await page.getByRole('menuitem', { name: 'Test restore' }).click()
  await expect(list.getByText('proven restorable')).toBeVisible({ timeout: 60_000 })
  await settled(page)
  await expectAccessible(page)

  await page.goto('/')
  await settled(page)
  await expect(page.getByRole('region', { name: 'Operations' })).toContainText('Proven restorable')

  await page.goto('/operations/backups')
  await more.click()
  await page.getByRole('menuitem', { name: 'Restore…' }).click()
  const question = page.getByRole('dialog', { name: 'Restore the gateway from this backup?' })
  await expect(question).toContainText("encrypted with this machine's key")
  await expect(question.getByRole('button', { name: 'Restore' })).toBeEnabled()
  await expectAccessible(page)
  await question.getByRole('button', { name: 'Restore' }).click()
  await expect(page.getByRole('heading', { name: 'Restore', exact: true })).toBeVisible()
  await expect(page).toHaveURL(/\/login/, { timeout: 180_000 })
  await logIn(page, admin)
  await page.goto('/operations/backups')
  await expect(page.getByText(/^The gateway was restored from the backup of /)).toBeVisible({ timeout: 180_000 })
  await settled(page)
  await expectAccessible(page)

  await more.click()
  await page.getByRole('menuitem', { name: 'Delete…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
  await expect(page.getByText('No backups yet')).toBeVisible()
})
