import {
  type admin,
  baseURL,
  enrol,
  expect,
  expectAccessible,
  expectFit,
  logIn,
  logOut,
  makeUser,
  name,
  read,
  test,
  typePassword,
} from './gateway'
import { totp } from './totp'

const wrongCode = '000000'

test.use({ storageState: { cookies: [], origins: [] } })

/** Expects the user's action in the audit log. */
async function expectAudited(action: string, { email }: typeof admin) {
  expect(await read(`/audit?action=${action}&actor=${email}`), action).not.toHaveLength(0)
}

test.describe('an authenticator app', () => {
  test.use({ expected: [400, 401] })

  test('is enrolled, requested at the login, replaced by a recovery code, and turned off', async ({ page }) => {
    test.slow()
    const user = await makeUser('totp')
    await logIn(page, user)
    await page.goto('/profile/two-factor')
    await expect(page.getByText('Your account is protected by a password only.')).toBeVisible()

    let secret = ''
    let recovery: string[] = []

    await test.step('a wrong code confirms nothing', async () => {
      await page.getByRole('button', { name: 'Set up an app' }).click()
      const qr = page.getByRole('img', { name: 'QR code' })
      await expect(qr).toBeVisible()
      expect(await qr.evaluate((image: HTMLImageElement) => image.naturalWidth)).toBeGreaterThan(100)
      secret = (await page.getByRole('region', { name: 'Secret' }).locator('code').textContent()) ?? ''
      await expectFit(page)
      await page.getByLabel('Code', { exact: true }).fill('12345')
      await page.getByRole('button', { name: 'Turn on' }).click()
      await expect(page.getByText('A code has six digits.')).toBeVisible()
      await page.getByLabel('Code', { exact: true }).fill(wrongCode)
      await page.getByRole('button', { name: 'Turn on' }).click()
      await expect(page.getByText('The code is wrong.')).toBeVisible()
    })

    await test.step('the right one shows the recovery codes, and leaving without them asks', async () => {
      await page.getByLabel('Code', { exact: true }).fill(totp(secret))
      await page.getByRole('button', { name: 'Turn on' }).click()
      const list = page.getByRole('list', { name: 'Recovery codes' })
      await expect(list.getByRole('listitem')).toHaveCount(10)
      recovery = await list.getByRole('listitem').allTextContents()
      await expectFit(page)
      const [file] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: 'Download' }).click(),
      ])
      const stream = await file.createReadStream()
      const text = (await stream.toArray()).join('')
      expect(text).toContain(recovery.join('\n'))

      await page.getByRole('link', { name: 'Sessions' }).click()
      await page
        .getByRole('dialog', { name: 'Leave without the recovery codes?' })
        .getByRole('button', { name: 'Cancel' })
        .click()
      await expect(page.getByRole('button', { name: 'Done' })).toBeDisabled()
      await page.getByLabel('I have saved these codes').check()
      await page.getByRole('button', { name: 'Done' }).click()
      await expect(page.getByRole('button', { name: 'Turn off' })).toBeVisible()
    })

    await test.step('the login takes two steps and tells a wrong code', async () => {
      await logOut(page)
      await typePassword(page, user)
      await expect(page.getByRole('heading', { name: 'One more step' })).toBeVisible()
      await expect(page.getByLabel('Code', { exact: true })).toHaveAttribute('autocomplete', 'one-time-code')
      await expectFit(page)
      await page.getByLabel('Code', { exact: true }).fill(wrongCode)
      await page.getByRole('button', { name: 'Continue' }).click()
      await expect(page.getByText('The code is wrong or has already been used. 4 attempts left.')).toBeVisible()
      expect((await page.request.get('/api/v1/auth/me')).status()).toBe(401)
      await page.getByLabel('Code', { exact: true }).fill(totp(secret, 1))
      await page.getByRole('button', { name: 'Continue' }).click()
      await page.waitForURL((url) => url.pathname !== '/login')
      await page.goto('/profile')
      await expect(page.getByText('password and app')).toBeVisible()
    })

    await test.step('a recovery code works, once', async () => {
      const enter = async () => {
        await typePassword(page, user)
        await page.getByRole('button', { name: 'Use a recovery code' }).click()
        await page.getByLabel('Recovery code').fill((recovery[0] ?? '').toUpperCase().replaceAll('-', ' '))
        await page.getByRole('button', { name: 'Continue' }).click()
      }
      await logOut(page)
      await enter()
      await page.waitForURL((url) => url.pathname !== '/login')
      await page.goto('/profile')
      await expect(page.getByText('password and recovery code')).toBeVisible()
      await logOut(page)
      await enter()
      await expect(page.getByText('The code is wrong or has already been used.')).toBeVisible()
      await page.getByLabel('Recovery code').fill(recovery[1] ?? '')
      await page.getByRole('button', { name: 'Continue' }).click()
      await expect(page.getByRole('navigation', { name: 'Areas' })).toBeVisible()
    })

    await test.step('the password switches it off, another one does not', async () => {
      await page.goto('/profile/two-factor')
      await page.getByLabel('Current password').fill('not the password')
      await page.getByRole('button', { name: 'Turn off' }).click()
      await expect(page.getByText('This is not your current password.')).toBeVisible()
      await page.getByLabel('Current password').fill(user.password)
      await page.getByRole('button', { name: 'Turn off' }).click()
      await expect(page.getByRole('button', { name: 'Set up an app' })).toBeVisible()
      await logOut(page)
      await logIn(page, user)
      await expectAudited('auth.totp.enable', user)
    })
  })

  test('five wrong codes end the login', async ({ page }) => {
    const user = await makeUser('guesser')
    await enrol(user)
    await typePassword(page, user)
    for (let tries = 5; tries > 0; tries--) {
      await page.getByLabel('Code', { exact: true }).fill(wrongCode)
      await page.getByRole('button', { name: 'Continue' }).click()
      if (tries > 1)
        await expect(page.getByText(tries === 2 ? '1 attempt left.' : `${tries - 1} attempts`)).toBeVisible()
    }
    await expect(page.getByRole('alert')).toContainText('This login has expired')
    await expect(page.getByLabel('E-mail')).toHaveValue(user.email)
    await expect(page.getByLabel('Password', { exact: true })).toHaveValue('')
  })
})

test.describe('an administrator', () => {
  test('lets a user in who has lost their phone', async ({ page }) => {
    const boss = await makeUser('boss', 'admin')
    const loser = await makeUser('loser')
    await enrol(loser)
    await logIn(page, boss)
    await page.goto('/system/users?second=yes')
    const row = page.getByRole('row').filter({ hasText: loser.email })
    await expect(row).toContainText('app')
    await row.getByRole('link').click()
    await page.getByRole('button', { name: 'Turn off app' }).click()
    await expectAccessible(page)
    await page
      .getByRole('dialog', { name: /Turn off the authenticator app of/ })
      .getByRole('button', { name: 'Turn off app' })
      .click()
    await expect(page.getByRole('region', { name: 'Second factor' })).toContainText('none')
    // The user's own change must not look like someone else's.
    await expect(page.getByText('Someone else changed this')).toHaveCount(0)
    await page
      .getByRole('dialog', { name: `User ${loser.email}` })
      .getByRole('button', { name: 'Close' })
      .click()
    await logOut(page)
    await logIn(page, loser)
    await expectAudited('user.totp.disable', boss)
  })
})

test('an API token is made, used and deleted', async ({ page, playwright }) => {
  const user = await makeUser('robot')
  await logIn(page, user)
  await page.goto('/profile/tokens')
  await expect(page.getByRole('heading', { name: 'No API tokens' })).toBeVisible()
  await page.getByRole('link', { name: 'Create a token' }).click()
  await page.getByLabel('Name').fill('backup-script')
  await expect(page.getByLabel(/^Administrator/)).toHaveCount(0)
  await page.getByLabel('30 days').check()
  await page.getByRole('button', { name: 'Save' }).click()
  const shown = page.getByRole('region', { name: 'API token' }).locator('code')
  await expect(shown).toHaveText(/^gwt_/)
  await expectFit(page)
  const token = (await shown.textContent()) ?? ''
  await page.getByRole('button', { name: 'I have copied it' }).click()
  const row = page.getByRole('row').filter({ hasText: 'backup-script' })
  await expect(row).toContainText('in 30 days')
  await expect(page.getByText(token)).toHaveCount(0)

  const api = await playwright.request.newContext({
    baseURL,
    ignoreHTTPSErrors: true,
    extraHTTPHeaders: { Authorization: `Bearer ${token}` },
  })
  const me = await api.get('/api/v1/auth/me')
  expect((await me.json()).data).toMatchObject({ role: 'viewer', auth_method: 'token' })
  expect((await api.post('/api/v1/ntp/pools', { data: { kind: 'server', address: '192.0.2.9' } })).status()).toBe(403)

  await page.reload()
  await expect(row).toContainText('just now')
  await row.getByRole('button', { name: 'Delete' }).click()
  await page
    .getByRole('dialog', { name: 'Delete backup-script?' })
    .getByRole('button', { name: 'Delete', exact: true })
    .click()
  await expect(page.getByRole('heading', { name: 'No API tokens' })).toBeVisible()
  expect((await api.get('/api/v1/auth/me')).status()).toBe(401)
  await api.dispose()
  await expectAudited('api-token.create', user)
})

test.describe('sessions', () => {
  test('one session ends another, and all others', async ({ page, browser }) => {
    const user = await makeUser('busy')
    await logIn(page, user)
    const elsewhere = () =>
      browser.newContext({ baseURL, ignoreHTTPSErrors: true, userAgent: 'backup/1.0 (Windows NT)' })
    const contexts = [await elsewhere(), await elsewhere(), await elsewhere()]
    const others = await Promise.all(contexts.map((context) => context.newPage()))
    for (const other of others) await logIn(other, user)

    await page.goto('/profile/sessions')
    const rows = page.getByRole('row').filter({ has: page.getByRole('button') })
    await expect(rows).toHaveCount(4)
    const own = page.getByRole('row').filter({ hasText: 'this session' })
    await expect(own).toContainText('Chrome on Linux')
    await expectFit(page)

    await rows.filter({ hasText: 'Windows' }).first().getByRole('button', { name: 'End' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'End', exact: true }).click()
    await expect(rows).toHaveCount(3)
    const gone = async () => {
      const states = await Promise.all(others.map(async (one) => (await one.request.get('/api/v1/auth/me')).status()))
      return states.filter((status) => status === 401).length
    }
    expect(await gone()).toBe(1)

    await page.getByRole('button', { name: 'End all others' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'End all others' }).click()
    await expect(rows).toHaveCount(1)
    expect(await gone()).toBe(3)
    await expectAudited('auth.session.end', user)
    // The page notices without a reload, and redirects.
    await expect(others[0]!.getByRole('heading', { name: 'Log in' })).toBeVisible()
    for (const context of contexts) await context.close()
  })
})

test.describe('a passkey', () => {
  // A passkey is bound to a host name: the one from the setup.
  test.use({ baseURL: `https://${name}` })

  test('is added, requested at the login, and deleted', async ({ page }) => {
    const user = await makeUser('keyholder')
    const devices = await page.context().newCDPSession(page)
    await devices.send('WebAuthn.enable')
    await devices.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        transport: 'internal',
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    })

    await logIn(page, user)
    await page.goto('/profile/two-factor')
    await page.getByLabel('New passkey').fill('laptop')
    await page.getByRole('button', { name: 'Add a passkey' }).click()
    const row = page.getByRole('row').filter({ hasText: 'laptop' })
    await expect(row).toContainText(name)
    await expectFit(page)

    await test.step('the same device is not added twice', async () => {
      await page.getByLabel('New passkey').fill('again')
      await page.getByRole('button', { name: 'Add a passkey' }).click()
      await expect(page.getByText('This device already has a passkey for your account.')).toBeVisible()
    })

    await test.step('the login asks for it', async () => {
      await logOut(page)
      await typePassword(page, user)
      await expect(page.getByText('Now use your passkey.')).toBeVisible()
      await expectFit(page)
      await page.getByRole('button', { name: 'Use a passkey' }).click()
      await page.waitForURL((url) => url.pathname !== '/login')
      await page.goto('/profile')
      await expect(page.getByText('password and passkey')).toBeVisible()
    })

    await test.step('deleting the last second factor says so', async () => {
      await page.goto('/profile/two-factor')
      await row.getByRole('button', { name: 'Delete' }).click()
      const dialog = page.getByRole('dialog', { name: 'Delete laptop?' })
      await expect(dialog).toContainText('This is your only second factor')
      await dialog.getByRole('button', { name: 'Delete', exact: true }).click()
      await expect(row).toHaveCount(0)
      await logOut(page)
      await logIn(page, user)
    })
  })

  test('is explained if the browser does not support it', async ({ page }) => {
    await page.addInitScript(() => Reflect.deleteProperty(window, 'PublicKeyCredential'))
    await logIn(page, await makeUser('keyless'))
    await page.goto('/profile/two-factor')
    await expect(page.getByText('This browser does not offer passkeys here')).toBeVisible()
    await expect(page.getByRole('button', { name: 'Add a passkey' })).toHaveCount(0)
  })
})
