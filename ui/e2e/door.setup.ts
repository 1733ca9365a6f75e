import {
  admin,
  choose,
  expect,
  expectAccessible,
  logIn,
  logOut,
  name,
  schemes,
  screenshots,
  sessionFile,
  settled,
  setupToken,
  takingScreenshots,
  test,
} from './gateway'

test.describe('the door', () => {
  test.describe.configure({ mode: 'serial' })
  test.use({ expected: [400, 401] })

  test('the setup wizard completes a new gateway', async ({ page }) => {
    const { data: status } = await (await page.request.get('/api/v1/setup/status')).json()
    expect(status.completed, 'the tests need a fresh gateway').toBe(false)

    for (const colorScheme of schemes) {
      await page.emulateMedia({ colorScheme })
      await page.goto('/setup')
      await settled(page)
      await expectAccessible(page)
      if (takingScreenshots) await page.screenshot({ path: `${screenshots}/setup-${colorScheme}.png`, fullPage: true })
    }

    await expect(page.getByText('cluster')).toHaveCount(0)

    const fill = async (token: string, password: string) => {
      if (status.setup_token_required) await page.getByLabel('Setup token').fill(token)
      await page.getByLabel("Administrator's e-mail").fill(admin.email)
      await page.getByLabel("Administrator's password").fill(password)
      await page.getByLabel('Host name').fill(name)
      await page.getByLabel('Get certificates automatically').uncheck()
      await page.getByRole('button', { name: 'Set up the gateway' }).click()
    }
    await fill(setupToken, 'short')
    await expect(page.getByLabel("Administrator's password")).toHaveAttribute('aria-invalid', 'true')
    await fill(setupToken, admin.password)
    await expect(page.getByText('The gateway is set up.')).toBeVisible()
    await page.getByRole('link', { name: 'Log in' }).click()
    await expect(page).toHaveURL(/\/login$/)
  })

  test('after the first login the links of the machine are adopted', async ({ page }) => {
    await logIn(page, admin)
    await expect(page.getByText('No interface is declared yet')).toBeVisible()
    await page.getByRole('link', { name: 'Adopt links' }).click()
    await choose(page, 'Zone of wan0', 'wan')
    await expect(page.getByLabel('Let the LAN reach the internet')).toBeChecked()
    for (const colorScheme of schemes) {
      await page.emulateMedia({ colorScheme })
      await settled(page)
      await expectAccessible(page)
      if (takingScreenshots) await page.screenshot({ path: `${screenshots}/adopt-${colorScheme}.png` })
    }
    await page.getByRole('button', { name: 'What will change' }).click()
    await expect(page.getByRole('region', { name: 'What will change' })).toContainText('198.51.100.1')
    await page.getByRole('button', { name: 'Adopt 2 links' }).click()
    await expect(page).toHaveURL(/\/network\/interfaces$/)
    await expect(page.getByRole('table', { name: 'Interfaces' }).getByRole('link')).toHaveText(['lan0', 'wan0'])
    await expect(page.getByRole('link', { name: 'Adopt links' })).toHaveCount(0)
    await logOut(page)
  })

  test('before the login every page of the door is accessible in both schemes', async ({ page }) => {
    for (const colorScheme of schemes) {
      await page.emulateMedia({ colorScheme })
      for (const path of ['/login', '/reset-password', '/setup']) {
        await page.goto(path)
        await settled(page)
        await expectAccessible(page)
      }
    }
  })

  test('a wrong password is told, and leads nowhere', async ({ page }) => {
    await page.goto('/login')
    await page.getByLabel('E-mail').fill(admin.email)
    await page.getByLabel('Password', { exact: true }).fill('not the password')
    await page.getByRole('button', { name: 'Log in' }).click()
    await expect(page.getByRole('alert')).toBeVisible()
    await expect(page).toHaveURL(/\/login$/)
  })

  test('a single sign-on that failed is told in a sentence', async ({ page }) => {
    await page.goto('/login?sso_error=no_account')
    await expect(page.getByRole('alert')).toContainText('no account for your e-mail address')
    await page.goto('/login?sso_error=never-heard-of')
    await expect(page.getByRole('alert')).toContainText('The single sign-on failed')
    await expect(page.getByRole('link', { name: /^Log in with/ })).toHaveCount(0)
  })

  test('a reset token that nobody made is refused', async ({ page }) => {
    await page.goto('/reset-password?token=0123456789abcdef0123456789abcdef')
    await page.getByLabel('New password').fill('another long password')
    await page.getByRole('button', { name: 'Set the password' }).click()
    await expect(page.getByRole('alert')).toBeVisible()
  })

  test('the login leads to the page that was asked for', async ({ page }) => {
    await page.goto('/system/users?role=admin')
    await expect(page).toHaveURL(/\/login\?next=/)
    await page.getByLabel('E-mail').fill(admin.email)
    await page.getByLabel('Password', { exact: true }).fill(admin.password)
    await page.getByRole('button', { name: 'Log in' }).click()
    await expect(page).toHaveURL(/\/system\/users\?role=admin$/)
    await expect(page.getByRole('link', { name: admin.email })).toBeVisible()
    await page.context().storageState({ path: sessionFile })
  })

  test('logging out ends the session', async ({ page }) => {
    await logIn(page, admin)
    await logOut(page)
    await page.goto('/')
    await expect(page).toHaveURL(/\/login\?next=/)
  })
})
