import type { Page } from '@playwright/test'
import { admin, byAPI, expect, expectAccessible, logIn, onGateway, schemes, settled, test } from './gateway'

const endpoint = process.env.GATEWAY_S3
if (!endpoint) throw new Error('GATEWAY_S3 must name an S3 service')

// The gateway is away while its data are replaced; before that it is not set up, and after that this page is closed.
test.use({ expected: [400, 401, 403, 409, 502, 503, 'net::ERR_', 'WebSocket'] })

const passphrase = 'the passphrase of this test'
// In a folder, because the targets' own test wants the bucket empty.
const folder = 'another-machine'
const keys = { access_key: 'gateway', secret_key: 'correct-horse-battery' }
const bucket = { endpoint, bucket: 'backups', path_prefix: folder, https: false, ...keys }
const pool = '192.0.2.77'

/** An encrypted archive of the gateway, which is at an S3 service, too. */
const backUp = () =>
  byAPI(async (api) => {
    const target = await api.post('/api/v1/backup-remotes', { data: { kind: 's3', settings: bucket } })
    expect(target.status()).toBe(201)
    const made = await api.post('/api/v1/backups', { data: { passphrase } })
    expect(made.status()).toBe(201)
    const { data } = await made.json()
    return { id: data.id as string, content: await (await api.get(`/api/v1/backups/${data.id}/download`)).body() }
  })

/** Makes the machine one that no one has set up, and answers the token that proves who owns it. */
async function forget(page: Page): Promise<string> {
  onGateway('sh', '-c', 'rm /var/lib/gateway/setup.json && kill $(pgrep -x gateway-api)')
  await expect
    .poll(async () => {
      try {
        const answer = await page.request.get('/api/v1/setup/status')
        return answer.ok() ? (await answer.json()).data.completed : answer.status()
      } catch {
        return 'away'
      }
    })
    .toBe(false)
  return onGateway('cat', '/var/lib/gateway/setup-token').trim()
}

const open = async (page: Page) => {
  await page.getByRole('textbox', { name: 'Passphrase' }).fill('not the passphrase')
  await page.getByRole('button', { name: 'Open' }).click()
  await expect(page.getByText('This passphrase does not open the backup.')).toBeVisible()
  await page.getByRole('textbox', { name: 'Passphrase' }).fill(passphrase)
  await page.getByRole('button', { name: 'Open' }).click()
  await expect(page.getByText('sealed with the key of this machine')).toBeVisible()
}

test('a new machine becomes the gateway of a backup', async ({ page }) => {
  const { id, content } = await backUp()
  const upload = (name: string, buffer: Buffer) =>
    page
      .locator('input[type=file]')
      .setInputFiles({ name, mimeType: 'application/octet-stream', buffer })
      .then(() => page.getByRole('button', { name: 'Upload', exact: true }).click())

  // What came after the backup goes.
  await byAPI((api) => api.post('/api/v1/ntp/pools', { data: { kind: 'server', address: pool } }))
  const token = await forget(page)

  await page.goto('/setup')
  await page.getByRole('button', { name: 'Restore this gateway from a backup instead' }).click()
  await page.getByLabel('Setup token').fill('not the token')
  await upload('archive.tar.zst.age', content)
  await expect(page.getByLabel('Setup token')).toHaveAttribute('aria-invalid', 'true')
  await page.getByLabel('Setup token').fill(token)
  await upload('archive.tar.zst.age', Buffer.from('no archive at all'))
  await expect(page.getByRole('alert')).toContainText('archive')
  for (const colorScheme of schemes) {
    await page.emulateMedia({ colorScheme })
    await settled(page)
    await expectAccessible(page)
  }
  await upload('archive.tar.zst.age', content)
  await open(page)
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Choose another archive' }).click()

  await page.getByText('Off-site target').click()
  await page.getByRole('button', { name: 'Look for archives' }).click()
  await expect(page.getByLabel('Endpoint')).toHaveAttribute('aria-invalid', 'true')
  await page.getByLabel('Endpoint').fill(endpoint)
  await page.getByRole('textbox', { name: 'Bucket' }).fill('backups')
  await page.getByLabel('Folder').fill(folder)
  await page.getByLabel('Access key').fill('gateway')
  await page.getByLabel('Secret key', { exact: true }).fill('correct-horse-battery')
  await page.getByLabel('Use TLS').uncheck({ force: true })
  await page.getByRole('button', { name: 'Look for archives' }).click()
  const archives = page.getByRole('table', { name: 'Archives' })
  await expect(archives).toBeVisible()
  await expectAccessible(page)
  await archives.getByRole('button', { name: /^Use / }).first().click()
  await open(page)
  await page.getByRole('button', { name: 'Restore', exact: true }).click()
  await expect(page.getByText('The gateway has the data of the backup.')).toBeVisible({ timeout: 180_000 })
  await expectAccessible(page)
  await page.getByRole('link', { name: 'Log in' }).click()
  await expect(page).toHaveURL(/\/(login)?$/)

  // The whole of the backup is there, and nothing that came later; the session is one of the backup, too.
  await byAPI(async (api) => {
    await expect
      .poll(async () => {
        const answer = await api.get('/api/v1/backups/restore')
        return answer.ok() ? (await answer.json()).data.state : answer.status()
      })
      .toBe('done')
    const { data: pools } = await (await api.get('/api/v1/ntp/pools')).json()
    expect((pools as { address: string }[]).filter(({ address }) => address === pool)).toEqual([])
    const { data: backups } = await (await api.get('/api/v1/backups')).json()
    for (const one of backups as { id: string }[]) await api.delete(`/api/v1/backups/${one.id}`)
    expect((backups as { id: string }[]).map((one) => one.id)).toContain(id)
    const { data: targets } = await (await api.get('/api/v1/backup-remotes')).json()
    for (const one of targets as { id: string }[]) await api.delete(`/api/v1/backup-remotes/${one.id}`)
  })
  await page.context().clearCookies()
  await logIn(page, admin)
})
