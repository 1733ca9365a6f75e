import { clear, expect, expectAccessible, logIn, make, test } from './gateway'

const evil = '<img src=x onerror=alert(1)>'
const viewer = { email: 'viewer@example.com', password: 'a viewer may only look' }

/** Creates that user afresh. */
async function haveViewer() {
  await clear('/users', viewer.email)
  await make('/users', { ...viewer, role: 'viewer' })
}

test('text is shown as text', async ({ page }) => {
  await clear('/users', viewer.email)
  await page.goto('/system/users')
  await page.getByRole('link', { name: 'Add a user' }).click()
  await page.getByLabel('E-mail').fill(viewer.email)
  await page.getByLabel('Name', { exact: true }).fill(evil)
  await page.getByRole('textbox', { name: 'Password' }).fill(viewer.password)
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('cell', { name: evil })).toBeVisible()
  await expect(page.locator('img[src="x"]')).toHaveCount(0)
})

test.describe('a viewer', () => {
  test.use({ storageState: { cookies: [], origins: [] } })

  test('sees everything and changes nothing', async ({ page }) => {
    await haveViewer()
    await clear('/ntp/pools', 'users.example.net')
    await make('/ntp/pools', { kind: 'server', address: 'users.example.net' })
    await logIn(page, viewer)
    await page.goto('/services/ntp/servers')
    await expect(page.getByRole('table')).toBeVisible()
    await expect(page.getByRole('link', { name: 'Add a server' })).toHaveCount(0)
    await page.getByRole('table').getByRole('link').first().click()
    await expect(page.getByRole('banner').getByText('Read-only access')).toBeVisible()
    await expect(page.getByRole('dialog').getByRole('textbox')).toHaveCount(0)
    await expect(page.getByRole('dialog').getByRole('definition').first()).toBeVisible()
    await expect(page.getByRole('button', { name: 'Save' })).toHaveCount(0)
    await expectAccessible(page)
    await page.goto('/services/ntp/servers/new')
    await expect(page).toHaveURL(/\/servers$/)
  })
})

test.describe('accounts', () => {
  test.use({ expected: [400, 401] })

  test('users cannot delete themselves', async ({ page }) => {
    await page.goto('/system/users?q=admin')
    await page.getByRole('table').getByRole('link').first().click()
    await expect(page.getByRole('button', { name: 'Delete' })).toBeDisabled()
    await expect(page.getByText('This is your own account')).toBeVisible()
  })

  test('a short password is refused at its field', async ({ page }) => {
    await haveViewer()
    await page.goto('/system/users')
    await page.getByRole('link', { name: viewer.email, exact: true }).click()
    await page.getByLabel('New password').fill('short')
    await page.getByRole('button', { name: 'Set password' }).click()
    await expect(page.getByLabel('New password')).toHaveAttribute('aria-invalid', 'true')
  })

  test('a wrong current password is reported at its field, and the session continues', async ({ page }) => {
    await page.goto('/profile')
    await page.getByLabel('Current password').fill('not the password')
    await page.getByLabel('New password').fill('another long password')
    await page.getByRole('button', { name: 'Change password' }).click()
    await expect(page.getByLabel('Current password')).toHaveAttribute('aria-invalid', 'true')
    await page.reload()
    await expect(page.getByRole('heading', { level: 1, name: 'Your account' })).toBeVisible()
  })
})

test('the audit search keeps its filters in the URL', async ({ page }) => {
  await haveViewer()
  await page.goto('/operations/audit')
  await page.getByLabel('Subject').fill(viewer.email)
  await expect(page).toHaveURL(/subject=viewer/)
  await page.reload()
  await expect(page.getByLabel('Subject')).toHaveValue(viewer.email)
  await expect(page.getByRole('row').nth(1)).toContainText(viewer.email)

  // The address of an entry shows it, whatever the list contains.
  await page.getByRole('row').nth(1).getByRole('link').click()
  await expect(page.getByRole('dialog').getByText(viewer.email).first()).toBeVisible()
  await page.goto(`${new URL(page.url()).pathname}?actor=nobody`)
  await expect(page.getByRole('dialog').getByText(viewer.email).first()).toBeVisible()
})
