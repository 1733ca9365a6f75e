import { byAPI, expect, expectAccessible, inDays, logIn, makeUser, onGateway, settled, sign, test } from './gateway'

const keyFile = '/var/lib/gateway/license.key'

test.describe.configure({ mode: 'serial' })
test.use({ expected: [400] })

// Other tests expect a gateway without a license.
const clean = async () => void (await byAPI((api) => api.delete('/api/v1/license/key')))
test.beforeAll(clean)
test.afterAll(clean)

test('a license is pasted, checked, shown and removed', async ({ page }) => {
  await page.goto('/')
  await page.getByRole('link', { name: 'License', exact: true }).click()
  await expect(page.getByText('No license is installed.')).toBeVisible()
  await page.getByRole('link', { name: 'Install license' }).click()
  const field = page.getByRole('dialog').getByRole('textbox', { name: 'License' })
  await expect(field).toBeFocused()

  const license = sign('--subject', 'Example Ltd', '--domains', '500', '--feature', 'waf', '--not-after', inDays(400.5))
  // One letter of the signature is changed.
  const lines = license.split('\n')
  const changed = lines.map((line, at) => (at === 1 ? (line[0] === 'A' ? 'B' : 'A') + line.slice(1) : line)).join('\n')
  for (const [text, complaint] of [
    ['Kind regards', 'it must begin with the line'],
    [changed, 'its signature is not the issuer'],
    [
      sign('--subject', 's', '--not-before', '2020-01-01', '--not-after', '2020-12-31'),
      'it expired on 31 December 2020',
    ],
  ] as const) {
    await field.fill(text)
    await page.getByRole('button', { name: 'Install', exact: true }).click()
    await expect(page.getByRole('dialog')).toContainText(complaint)
    await expect(field).toHaveAttribute('aria-invalid', 'true')
    await expect(field).toHaveValue(text)
  }
  await expectAccessible(page)

  // Indented and with CRLF, as a mail program may leave it; saved with the keyboard.
  await field.fill(`\n  ${license.replaceAll('\n', '\r\n  ')}`)
  await field.press('Control+Enter')
  await expect(page).toHaveURL(/\/system\/license$/)
  const status = page.getByRole('main')
  await expect(status.getByText('active', { exact: true })).toBeVisible()
  await expect(status).toContainText('Example Ltd')
  await expect(status).toContainText('400 days left')
  await expect(status).toContainText('waf')
  await expect(page.getByRole('img', { name: /^Domains: \d+ of 500$/ })).toBeVisible()
  await settled(page)
  await expectAccessible(page)
  await page.goto('/')
  await settled(page)
  await expect(page.getByRole('link', { name: 'View license' })).toHaveCount(0)

  await page.goto('/system/license')
  await page.getByRole('button', { name: 'Verify again' }).click()
  await expect(page.getByText('License verified')).toBeVisible()
  await page.getByRole('button', { name: 'Remove' }).click()
  const question = page.getByRole('dialog', { name: 'Remove the license?' })
  await expect(question).toContainText('Everything keeps working')
  await question.getByRole('button', { name: 'Cancel' }).click()
  await expect(status).toContainText('Example Ltd')
  await page.getByRole('button', { name: 'Remove' }).click()
  await question.getByRole('button', { name: 'Remove' }).click()
  await expect(page.getByText('No license is installed.')).toBeVisible()
})

test('a license file can be dropped, and the overview warns before the license expires', async ({ page }) => {
  await page.goto('/system/license/install')
  const license = sign('--subject', 'Example Ltd', '--not-after', inDays(12.5))
  const files = await page.evaluateHandle((text) => {
    const data = new DataTransfer()
    data.items.add(new File([text], 'gateway.license', { type: 'text/plain' }))
    return data
  }, license)
  const field = page.getByRole('dialog').getByRole('textbox', { name: 'License' })
  await field.dispatchEvent('drop', { dataTransfer: files })
  await expect(field).toHaveValue(license)
  await page.getByRole('button', { name: 'Install', exact: true }).click()
  await expect(page.getByText('expires soon')).toBeVisible()

  await page.goto('/')
  await expect(page.getByText('The license expires in 12 days.')).toBeVisible()
  await settled(page)
  await expectAccessible(page)
  await page.getByRole('link', { name: 'View license' }).click()
  await expect(page).toHaveURL(/\/system\/license$/)
})

test('an expired license is reported, and everything works', async ({ page }) => {
  // An expired license cannot be installed, so the test writes the file as if it had expired later.
  const license = sign('--subject', 'Example Ltd', '--not-before', '2020-01-01', '--not-after', '2020-12-31')
  onGateway('sh', '-c', `umask 077; printf %s "$0" > ${keyFile}`, license)
  await page.goto('/')
  await expect(page.getByText('The license has expired.')).toBeVisible()
  await page.getByRole('link', { name: 'View license' }).click()
  await expect(page.getByRole('main').getByText('expired', { exact: true })).toBeVisible()
  await expect(page.getByRole('main')).toContainText('Everything keeps working.')
  const answer = await byAPI((api) => api.put('/api/v1/system/retention', { data: { audit_days: 90 } }))
  expect(answer.status()).toBe(200)

  onGateway('sh', '-c', `printf nonsense > ${keyFile}`)
  await page.goto('/')
  await expect(page.getByText('The license is not valid.')).toBeVisible()
  await page.goto('/system/license')
  await expect(page.getByText('not valid', { exact: true })).toBeVisible()
  await settled(page)
  await expectAccessible(page)
})

test.describe('a viewer', () => {
  test.use({ storageState: { cookies: [], origins: [] } })

  test('sees the license, but no actions', async ({ page }) => {
    await logIn(page, await makeUser('license-viewer'))
    await settled(page)
    await expect(page.getByText('The license is not valid.')).toHaveCount(0)
    await page.getByRole('link', { name: 'License', exact: true }).click()
    await expect(page.getByText('not valid', { exact: true })).toBeVisible()
    for (const name of ['Verify again', 'Remove']) await expect(page.getByRole('button', { name })).toHaveCount(0)
    await expect(page.getByRole('link', { name: /Replace|Install/ })).toHaveCount(0)
  })
})
