import type { Page } from '@playwright/test'
import { admin, clear, expect, expectAccessible, expectSaved, logIn, logOut, make, name, put, test } from './gateway'

const issuer = process.env.GATEWAY_OIDC_ISSUER
if (!issuer) throw new Error('GATEWAY_OIDC_ISSUER must name an identity provider')
const email = process.env.GATEWAY_OIDC_EMAIL ?? 'jane.doe@example.com'

// The provider redirects to the gateway's host name, so the tests use it.
test.use({
  storageState: { cookies: [], origins: [] },
  baseURL: `https://${name}`,
  expected: [400],
})
test.describe.configure({ mode: 'serial' })

/** Removes the configuration of single sign-on, and the user that it created. */
async function clean() {
  const none = { enabled: false, issuer: '', client_id: '', client_secret: null, allow_internal: false }
  await put('/oidc/settings', none)
  await clear('/users', email)
}
test.beforeAll(clean)
test.afterAll(clean)

const step = (page: Page, text: string) =>
  page.getByRole('region', { name: 'Connection test' }).getByRole('listitem').filter({ hasText: text })

test('the connection test shows what is wrong', async ({ page }) => {
  await logIn(page, admin)
  await page.getByRole('link', { name: 'Single sign-on' }).click()
  await expect(page.getByRole('region', { name: 'Redirect URI' })).toContainText(
    `https://${name}/api/v1/auth/oidc/callback`,
  )
  await expect(page.getByRole('button', { name: 'Test connection' })).toBeDisabled()
  await page.getByLabel('Issuer').fill('https://127.0.0.1:9/realms/none')
  await page.getByRole('button', { name: 'Test connection' }).click()
  await expect(step(page, 'Discovery')).toContainText('127.0.0.1')
  await expect(step(page, 'Keys')).toContainText('Skipped')
  await expectAccessible(page)

  await page.getByLabel('Enable single sign-on').check()
  await page.getByLabel('Issuer').fill('')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByLabel('Issuer')).toHaveAttribute('aria-invalid', 'true')
  await expect(page.getByLabel('Client ID')).toHaveAttribute('aria-invalid', 'true')
})

test('a secret is stored, never shown, and kept if its field is empty', async ({ page }) => {
  await logIn(page, admin)
  await page.goto('/system/sso')
  const secret = page.getByLabel('Client secret', { exact: true })
  await expect(secret).toHaveAttribute('placeholder', 'Not configured')
  await page.getByLabel('Issuer').fill('https://login.example.net/realms/staff')
  await page.getByLabel('Client ID').fill('gateway')
  await secret.fill('a secret of the test')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(secret).toHaveAttribute('placeholder', /Leave empty to keep it/)
  await expect(secret).toHaveValue('')
  await page.getByLabel('Client ID').fill('gateway-2')
  await page.getByRole('button', { name: 'Save' }).click()
  await expectSaved(page)
  await page.reload()
  await expect(page.getByLabel('Client ID')).toHaveValue('gateway-2')
  await expect(secret).toHaveAttribute('placeholder', /Leave empty to keep it/)

  await page.getByLabel('Issuer').fill('https://login.example.org')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(secret).toHaveAttribute('aria-invalid', 'true')
})

test('a user of the provider logs in', async ({ page }) => {
  await test.step('the settings are tried and saved', async () => {
    await logIn(page, admin)
    await page.goto('/system/sso')
    await page.getByLabel('Issuer').fill(issuer)
    await page.getByLabel('Client ID').fill(process.env.GATEWAY_OIDC_CLIENT_ID ?? '')
    await page.getByLabel('Client secret', { exact: true }).fill(process.env.GATEWAY_OIDC_CLIENT_SECRET ?? '')
    await page.getByLabel('Enable single sign-on').check()
    await page.getByRole('button', { name: 'Test connection' }).click()
    // The provider of the tests speaks plain HTTP, which only an internal one may.
    await expect(page.getByRole('region', { name: 'Connection test' })).toContainText('must be an https URL')
    await page.getByLabel('Allow an internal provider').check()
    await page.getByRole('button', { name: 'Test connection' }).click()
    await expect(step(page, 'The provider has keys that sign ID tokens.')).toBeVisible()
    await page.getByRole('button', { name: 'Save' }).click()
    await expectSaved(page)
  })

  await logOut(page)
  const enter = async () => {
    await page.goto('/login?next=/profile')
    await page.getByRole('link', { name: `Log in with ${new URL(issuer).host}` }).click()
  }

  await test.step('without an account there is a sentence, not a session', async () => {
    await enter()
    await expect(page).toHaveURL(/sso_error=no_account/)
    await expect(page.getByRole('alert')).toContainText('no account for your e-mail address')
    await expectAccessible(page)
  })

  await test.step('with one the page that was asked for opens', async () => {
    await make('/users', { email, password: 'never typed by anybody' })
    await enter()
    await expect(page).toHaveURL(/\/profile$/)
    await expect(page.getByText('single sign-on', { exact: true })).toBeVisible()
  })
})
