import type { Page } from '@playwright/test'
import { clear, expect, expectAccessible, test } from './gateway'

const endpoint = process.env.GATEWAY_S3
if (!endpoint) throw new Error('GATEWAY_S3 must name an S3 service')

test.use({ expected: [400] })
test.describe.configure({ mode: 'serial' })

const clean = async () => {
  await clear('/backup-remotes')
  await clear('/backups')
}
test.beforeAll(clean)
test.afterAll(clean)

const step = (page: Page, name: string) =>
  page.getByRole('region', { name: 'Test', exact: true }).getByRole('listitem').filter({ hasText: name })

test('a bucket is added, tried with a wrong key, and then with the right one', async ({ page }) => {
  await page.goto('/operations/backups/targets')
  await expect(page.getByText('No off-site targets')).toBeVisible()
  await page.getByRole('link', { name: 'Add target' }).click()
  await page.getByLabel('Endpoint').fill('https://s3.example.net')
  await page.getByRole('textbox', { name: 'Bucket' }).fill('backups')
  // A separate folder per attempt, because uploads stay there.
  await page.getByLabel('Folder').fill(`targets-${test.info().retry}`)
  await page.getByLabel('Access key').fill('gateway')
  await page.getByLabel('Secret key', { exact: true }).fill('wrong')
  await page.getByLabel('Use TLS').uncheck({ force: true })
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByLabel('Endpoint')).toHaveAttribute('aria-invalid', 'true')
  await page.getByLabel('Endpoint').fill(endpoint)
  await page.getByLabel('Name', { exact: true }).fill('The vault')
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByText('Nothing sent yet')).toBeVisible()

  await page.getByRole('link', { name: 'The vault' }).click()
  await page.getByRole('button', { name: 'Test target' }).click()
  await expect(step(page, 'Connect')).toContainText('the secret key is wrong')
  await expect(step(page, 'Upload')).toContainText('Not tried')
  await expectAccessible(page)

  const secret = page.getByLabel('Secret key', { exact: true })
  await expect(secret).toHaveValue('')
  await expect(secret).toHaveAttribute('placeholder', /Leave empty to keep it/)
  await secret.fill('correct-horse-battery')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('link', { name: 'The vault' }).click()
  await page.getByRole('button', { name: 'Test target' }).click()
  await expect(step(page, 'Delete')).toContainText('A file can be deleted.')
  await page.getByRole('button', { name: 'Show archives' }).click()
  await expect(page.getByText('No archives of a gateway on this target.')).toBeVisible()

  await test.step('a backup arrives there, and is copied back', async () => {
    const made = await page.request.post('/api/v1/backups', { data: {} })
    expect(made.status()).toBe(201)
    await page.getByRole('button', { name: 'Refresh' }).click()
    await page.getByRole('button', { name: /^Copy here/ }).click()
    await expect(page.getByText('The archive is now among the backups')).toBeVisible()
    await expectAccessible(page)
  })
})

test('an unchanged secret is kept, and the target can be deleted', async ({ page }) => {
  await page.goto('/operations/backups/targets')
  await page.getByRole('link', { name: 'The vault' }).click()
  await page.getByLabel('Archives to keep').fill('3')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('link', { name: 'The vault' }).click()
  await expect(page.getByLabel('Archives to keep')).toHaveValue('3')
  await page.getByRole('button', { name: 'Test target' }).click()
  await expect(step(page, 'Delete')).toContainText('A file can be deleted.')
  await page.getByRole('button', { name: 'Delete', exact: true }).click()
  await page.getByRole('dialog').last().getByRole('button', { name: 'Delete' }).click()
  await expect(page.getByText('No off-site targets')).toBeVisible()
})

test('an SFTP server has its own fields, with their errors', async ({ page }) => {
  await page.goto('/operations/backups/targets/new')
  await page.getByText('SFTP server', { exact: true }).click()
  await expect(page.getByRole('textbox', { name: 'Bucket' })).toBeHidden()
  await page.getByRole('textbox', { name: 'Host', exact: true }).fill('backup.example.net')
  await page.getByLabel('User name').fill('backup')
  await page.getByRole('textbox', { name: 'Private key' }).fill('nonsense')
  await page.getByLabel('Host key fingerprint').fill('MD5:00')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByLabel('Host key fingerprint')).toHaveAttribute('aria-invalid', 'true')
  await expect(page.getByText('must be a private key as ssh-keygen writes it')).toBeVisible()
  await expectAccessible(page)
})
