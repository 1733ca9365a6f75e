import type { Page } from '@playwright/test'
import {
  admin,
  byAPI,
  choose,
  clear,
  expect,
  expectAccessible,
  expectFit,
  logIn,
  make,
  onGateway,
  plugIn,
  read,
  renewSession,
  test,
  unplug,
} from './gateway'

const endpoint = process.env.GATEWAY_S3
if (!endpoint) throw new Error('GATEWAY_S3 must name an S3 service')
/** The settings of an SSH server as a backup target, including its key's fingerprint. */
const server = JSON.parse(process.env.GATEWAY_SFTP ?? 'null')
if (!server) throw new Error('GATEWAY_SFTP must have the settings of an SSH server')

// Before the restore the gateway is not set up, during it unreachable, and afterwards this page is closed.
test.use({ expected: [400, 401, 403, 409, 502, 503, 'net::ERR_', 'WebSocket'] })

const passphrase = 'the passphrase of this test'
const folder = 'another-machine'
const keys = { access_key: 'gateway', secret_key: 'correct-horse-battery' }
const bucket = { endpoint, bucket: 'backups', path_prefix: folder, https: false, ...keys }
const pool = '192.0.2.77'

/** An interface that has another name on the new machine. */
const link = { before: 'dmz0', after: 'dmz9' }

const setup = '/var/lib/gateway/setup.json'

/** Restores the gateway as it was, set up, wherever an earlier attempt stopped. */
async function clean() {
  onGateway('sh', '-c', 'pkill -CONT -x gateway-restore || true')
  onGateway('sh', '-c', `test ! -e ${setup}.before || { mv ${setup}.before ${setup} && kill $(pgrep -x gateway-api); }`)
  await expect.poll(isSetUp).toBe(true)
  await renewSession()
  await clear('/network-interfaces', link.before, link.after)
  await clear('/ntp/pools', pool)
  await clear('/backups')
  await clear('/backup-remotes')
  unplug('dmz-far')
}

test.beforeAll(async () => {
  await clean()
  plugIn(link.before, 'dmz-far')
})
test.afterAll(clean)

/** Whether the gateway is set up; while it starts, the HTTP status or 'away'. */
async function isSetUp() {
  try {
    return await byAPI(
      async (api) => {
        const answer = await api.get('/api/v1/setup/status')
        return answer.ok() ? (await answer.json()).data.completed : answer.status()
      },
      { keep: false },
    )
  } catch {
    return 'away'
  }
}

/** Makes an encrypted archive of the gateway, which is also uploaded to an S3 service and an SSH server. */
async function backUp() {
  await make('/network-interfaces', { name: link.before, type: 'ethernet', role: 'lan' })
  await make('/backup-remotes', { kind: 's3', settings: bucket })
  await make('/backup-remotes', { kind: 'sftp', settings: server })
  const { id } = await make('/backups', { passphrase })
  const content = await byAPI(async (api) => (await api.get(`/api/v1/backups/${id}/download`)).body())
  return { id, content }
}

/** Makes the machine look as if it were never set up, and returns the token that proves its ownership. */
async function forget(): Promise<string> {
  onGateway('ip', 'link', 'set', link.before, 'down')
  onGateway('ip', 'link', 'set', link.before, 'name', link.after)
  onGateway('sh', '-c', `mv ${setup} ${setup}.before && kill $(pgrep -x gateway-api)`)
  await expect.poll(isSetUp).toBe(false)
  return onGateway('cat', '/var/lib/gateway/setup-token').trim()
}

const open = async (page: Page) => {
  await page.getByRole('textbox', { name: 'Passphrase' }).fill('not the passphrase')
  await page.getByRole('button', { name: 'Open' }).click()
  await expect(page.getByText('This passphrase does not open the backup.')).toBeVisible()
  await page.getByRole('textbox', { name: 'Passphrase' }).fill(passphrase)
  await page.getByRole('button', { name: 'Open' }).click()
  await expect(page.getByText("encrypted with this machine's key")).toBeVisible()
}

test('a backup is restored on a new machine', async ({ page }) => {
  test.slow()
  const { id, content } = await backUp()
  const upload = (name: string, buffer: Buffer) =>
    page
      .locator('input[type=file]')
      .setInputFiles({ name, mimeType: 'application/octet-stream', buffer })
      .then(() => page.getByRole('button', { name: 'Upload', exact: true }).click())

  // The restore deletes what was added after the backup.
  await make('/ntp/pools', { kind: 'server', address: pool })
  const token = await forget()

  await page.goto('/setup')
  await page.getByRole('button', { name: 'restore a backup' }).click()
  await page.getByLabel('Setup token').fill('not the token')
  await upload('archive.tar.zst.age', content)
  await expect(page.getByLabel('Setup token')).toHaveAttribute('aria-invalid', 'true')
  await page.getByLabel('Setup token').fill(token)
  await upload('archive.tar.zst.age', Buffer.from('no archive at all'))
  await expect(page.getByRole('alert')).toContainText('archive')
  await expectFit(page)
  await upload('archive.tar.zst.age', content)
  await open(page)
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Choose another archive' }).click()

  await page.getByText('Off-site target').click()
  await page.getByRole('button', { name: 'Find archives' }).click()
  await expect(page.getByLabel('Endpoint')).toHaveAttribute('aria-invalid', 'true')
  await page.getByLabel('Endpoint').fill(endpoint)
  await page.getByRole('textbox', { name: 'Bucket' }).fill('backups')
  await page.getByLabel('Folder').fill(folder)
  await page.getByLabel('Access key').fill('gateway')
  await page.getByLabel('Secret key', { exact: true }).fill('correct-horse-battery')
  await page.getByLabel('Use TLS').uncheck({ force: true })
  await page.getByRole('button', { name: 'Find archives' }).click()
  const archives = page.getByRole('table', { name: 'Archives' })
  await expect(archives).toBeVisible()
  await expectAccessible(page)
  await archives.getByRole('button', { name: /^Use / }).first().click()
  await open(page)
  await page.getByRole('button', { name: 'Choose another archive' }).click()

  await test.step('an SSH server shows its key before it gets anything', async () => {
    await page.getByText('SFTP server', { exact: true }).click()
    await page.getByRole('textbox', { name: 'Host', exact: true }).fill(server.host)
    await page.getByRole('textbox', { name: 'Port' }).fill(String(server.port))
    await page.getByLabel('Folder').fill(server.remote_dir)
    await page.getByLabel('User name').fill(server.username)
    await page.getByRole('textbox', { name: 'Private key' }).fill(Buffer.from(server.private_key, 'base64').toString())
    await page.getByRole('button', { name: 'Find archives' }).click()
    await expect(page.getByText(server.host_key_fingerprint)).toBeVisible()
    await expect(archives).toBeHidden()
    await expectAccessible(page)
    await page.getByRole('button', { name: 'Yes, trust it' }).click()
    await archives.getByRole('button', { name: /^Use / }).first().click()
    await open(page)
  })

  await test.step('an interface that has another name here is mapped', async () => {
    await expect(page.getByText(`This machine has no interface ${link.before}.`)).toBeVisible()
    const place = `Interface that replaces ${link.before}`
    await choose(page, place, 'lan0')
    await page.getByRole('button', { name: 'Restore', exact: true }).click()
    await expect(
      page.getByText('This field must be another interface: lan0 already replaces lan0 of the backup.'),
    ).toBeVisible()
    await expectAccessible(page)
    await choose(page, place, link.after)
  })

  const title = page.getByRole('heading', { name: 'Restore this gateway from a backup' })
  const progress = page.getByText('The gateway is being restored from')
  const result = page.getByText('The gateway has been restored from the backup.')
  await test.step('a reload comes back to what goes on, and to what came of it', async () => {
    await page.getByRole('button', { name: 'Restore', exact: true }).click()
    await expect(progress).toBeVisible()
    const hold = () => onGateway('sh', '-c', 'pkill -STOP -x gateway-restore && echo held || true').trim()
    await expect.poll(hold).toBe('held')
    await page.reload()
    await expect(progress).toBeVisible()
    await expect(title).toBeVisible()
    await expectAccessible(page)
    onGateway('pkill', '-CONT', '-x', 'gateway-restore')
    await expect(result).toBeVisible({ timeout: 180_000 })
    await page.reload()
    await expect(result).toBeVisible()
    await expectAccessible(page)
  })
  await page.getByRole('link', { name: 'Log in' }).click()
  await expect(page).toHaveURL(/\/login$/)
  await renewSession()

  // Everything in the backup is there, and nothing that was added later.
  await byAPI(async (api) => {
    await expect
      .poll(async () => {
        const answer = await api.get('/api/v1/backups/restore')
        return answer.ok() ? (await answer.json()).data.state : answer.status()
      })
      .toBe('done')
  })
  expect((await read('/ntp/pools')).filter(({ address }) => address === pool)).toEqual([])
  const names = (await read('/network-interfaces')).map(({ name }) => name)
  expect(names.filter((name) => name.startsWith('dmz'))).toEqual([link.after])
  expect((await read('/backups')).map((one) => one.id)).toContain(id)
  await page.context().clearCookies()
  await logIn(page, admin)
})
