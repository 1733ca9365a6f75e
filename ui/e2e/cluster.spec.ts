import { execFileSync } from 'node:child_process'
import type { Browser, Page } from '@playwright/test'
import {
  admin,
  expect,
  expectAccessible,
  expectNoSidewaysScroll,
  logIn,
  schemes,
  screenshots,
  settled,
  test,
} from './gateway'

const second = process.env.GATEWAY_SECOND_URL ?? ''
const secondToken = process.env.GATEWAY_SECOND_SETUP_TOKEN ?? ''
const names = ['gateway1.lab.internal', 'gateway2.lab.internal'] as const

// Allows for a busy machine.
test.describe.configure({ mode: 'serial', timeout: 600_000 })
// A node that is cut off refuses requests, and needs its own login.
test.use({ keeps: false, expected: [400, 401, 403, 404, 409, 503, 'net::ERR_', 'WebSocket'] })

/** Cuts or restores the link between the nodes. */
const cable = (verb: 'cut' | 'heal') =>
  execFileSync(process.env.GATEWAY_LAB ?? '', [verb, 'gateway1', 'cluster', '--dir', process.env.GATEWAY_LAB_DIR ?? ''])

/** Runs a command on a node, as root. */
const on = (node: string, input: string, ...command: string[]) =>
  execFileSync(
    process.env.GATEWAY_LAB ?? '',
    ['exec', node, '--dir', process.env.GATEWAY_LAB_DIR ?? '', '--', ...command],
    { input, encoding: 'utf8' },
  )

/** Opens a page of the second gateway. */
const onSecond = async (browser: Browser) =>
  (
    await browser.newContext({ baseURL: second, ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 } })
  ).newPage()

const card = (page: Page, name: string) => page.getByRole('article', { name })

/** Checks a page in both schemes, on a desktop and on a phone. */
async function look(page: Page, name: string) {
  for (const colorScheme of schemes) {
    await page.emulateMedia({ colorScheme })
    for (const [device, viewport] of [
      ['', { width: 1280, height: 900 }],
      ['-phone', { width: 390, height: 844 }],
    ] as const) {
      await page.setViewportSize(viewport)
      await settled(page)
      await expectAccessible(page)
      await expectNoSidewaysScroll(page)
      await page.screenshot({ path: `${screenshots}/${name}-${colorScheme}${device}.png`, fullPage: true })
    }
  }
  await page.setViewportSize({ width: 1280, height: 800 })
}

test('a second gateway joins through the setup wizard', async ({ page, browser }) => {
  await logIn(page, admin)
  await page.goto('/system/cluster')
  await expect(page.getByText('This gateway works alone')).toBeVisible()
  await look(page, 'cluster-alone')
  await page.getByRole('link', { name: 'Add a node' }).click()
  const name = page.getByRole('textbox', { name: 'Host name of the new node' })
  await name.fill('not a name')
  await page.getByRole('button', { name: 'Create token' }).click()
  await expect(name).toHaveAttribute('aria-invalid', 'true')
  await name.fill(names[1])
  await page.getByRole('button', { name: 'Create token' }).click()
  const shown = page.getByRole('region', { name: 'Join token' })
  await expect(shown).toContainText('gwj_')
  const token = ((await shown.locator('code').textContent()) ?? '').trim()
  await expect(page.getByRole('region', { name: 'Command' })).toContainText(
    `gateway-ctl cluster-join --primary ${names[0]} --token ${token}`,
  )
  await look(page, 'cluster-token')

  const other = await onSecond(browser)
  await other.goto('/setup')
  await other.getByRole('button', { name: 'join a cluster' }).click()
  const proof = other.getByRole('textbox', { name: 'Setup token' })
  if (await proof.isVisible()) await proof.fill(secondToken)
  await other.getByRole('textbox', { name: 'Host name of the primary' }).fill(names[0])
  await other.getByRole('textbox', { name: 'Join token' }).fill('gwj_nonsense')
  await other.getByRole('button', { name: 'Join', exact: true }).click()
  await expect(other.getByRole('textbox', { name: 'Join token' })).toHaveAttribute('aria-invalid', 'true')
  await expectAccessible(other)
  await other.getByRole('textbox', { name: 'Join token' }).fill(token)
  // The primary's reverse proxy may not serve the certificate for joining nodes yet.
  const joined = other.getByRole('heading', { name: `${names[1]} has joined the cluster` })
  await expect(async () => {
    const join = other.getByRole('button', { name: 'Join', exact: true })
    if (await join.isEnabled({ timeout: 100 }).catch(() => false)) await join.click()
    await expect(joined).toBeVisible({ timeout: 20_000 })
  }).toPass()
  await expectAccessible(other)
  await other.screenshot({ path: `${screenshots}/cluster-joined-light.png` })
  await other.getByLabel('Get certificates automatically').uncheck()
  await other.getByRole('button', { name: 'Finish' }).click()
  await expect(other.getByText('Log in with an account of the cluster.')).toBeVisible()

  await expect(page.getByText(`${names[1]} has joined.`)).toBeVisible()
  await page.getByRole('button', { name: 'Close', exact: true }).last().click()
  await expect(page.getByRole('dialog')).toHaveCount(0)
  await expect(card(page, names[0])).toHaveAttribute('data-role', 'primary')
  await expect(card(page, names[1])).toHaveAttribute('data-role', 'standby')
  await expect(page.getByText('following')).toBeVisible()
  await look(page, 'cluster')

  await card(page, names[1]).getByRole('button', { name: 'Repair' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Repair' }).click()
  // Not the rows that differed at the join. A row may be in transit, so the count can be above 0.
  await expect(card(page, names[1])).toContainText(/In sync with the primary: (nothing|\d rows?) differed/)
})

test('a node that drifted shows its tables, and is identical again after a repair', async ({ page }) => {
  await logIn(page, admin)
  await page.request.post('/api/v1/dns/zones', { data: { name: 'drift.example.net' } })
  const rows = (sql: string) =>
    on('gateway2', sql, 'psql', '-XAtq', '-h', '/run/postgresql', '-U', 'gateway', '-d', 'gateway')
  const has = "SELECT count(*) FROM dns_zones WHERE name = 'drift.example.net'"
  await expect(() => expect(rows(has).trim()).toBe('1')).toPass()
  rows("SET session_replication_role = replica; DELETE FROM dns_zones WHERE name = 'drift.example.net'")
  await page.goto('/system/cluster')
  const node = card(page, names[1])
  await expect(node).toContainText('The configuration differs in these tables:')
  await expect(node).toContainText('dns_zones')
  await expect(node).not.toContainText('In sync with the primary')
  await expect(page.getByText('The cluster is degraded')).toBeVisible()
  await look(page, 'cluster-drift')
  await node.getByRole('button', { name: 'Repair' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Repair' }).click()
  await expect(node).not.toContainText('The configuration differs')
  await expect(node).toContainText(/In sync with the primary: \d+ rows? differed/)
  expect(rows(has).trim()).toBe('1')
})

// The gateway reports the progress of an update from a state file, so the test writes that file. A lab has no apt, so
// the offer is faked.
test('an update of all nodes is offered, shows its progress, and says where it stopped', async ({ page }) => {
  await logIn(page, admin)
  const panel = page.locator('section').filter({ has: page.getByRole('heading', { name: 'Update of all nodes' }) })
  await page.goto('/system/cluster')
  await expect(panel).toContainText('No newer version is available.')

  const fakeOffer = async () => {
    await page.route('**/api/v1/system/package-versions', async (route) => {
      const answer = await route.fetch()
      const body = await answer.json()
      Object.assign(body.data, { packaged: true, error: '' })
      const [own] = body.data.packages
      body.data.packages = [
        { ...own, name: 'gateway', installed: '1.0.0', available: '1.1.0', newer: ['1.1.0'], upgradable: true },
      ]
      await route.fulfill({ response: answer, json: body })
    })
    await page.reload()
  }
  await fakeOffer()
  await expect(panel).toContainText('Version 1.1.0 is available.')
  const verb = panel.getByRole('button', { name: 'Update all nodes' })
  await expect(verb).toBeEnabled()
  await look(page, 'cluster-update-offered')
  await verb.click()
  const dialog = page.getByRole('dialog')
  await expect(dialog).toContainText('The standbys are updated first, one after the other, and the primary last.')
  await look(page, 'cluster-update-ask')
  await dialog.getByRole('button', { name: 'Update all nodes' }).click()
  await expect(page.getByText(/latest version|read the versions from apt/)).toBeVisible() // the lab has no packages
  await dialog.getByRole('button', { name: 'Cancel' }).click()

  const members = (await (await page.request.get('/api/v1/cluster/nodes')).json()).data as {
    id: string
    fqdn: string
  }[]
  const standby = members.find(({ fqdn }) => fqdn === names[1])
  const file = '/var/lib/gateway/rolling-update.json'
  const state = {
    phase: 'waiting-secondary',
    node: names[1],
    node_id: standby?.id,
    from: '1.0.0',
    to: '1.1.0',
    started_at: new Date().toISOString(),
    error: '',
    updated: [],
    since_uptime: Number(on('gateway1', '', 'cat', '/proc/uptime').split(' ')[0]),
    upgrade: '',
    live: [],
    drained: false,
  }
  on(
    'gateway1',
    JSON.stringify(state),
    'sh',
    '-c',
    `cat >${file}.new && chown gateway: ${file}.new && mv ${file}.new ${file}`,
  )
  await expect(panel).toContainText('From 1.0.0 to 1.1.0, started')
  await expect(panel.getByRole('listitem').filter({ hasText: names[1] })).toContainText(
    'waiting until it follows again',
  )
  await expect(verb).toHaveCount(0)
  await look(page, 'cluster-update-running')

  // Next is the primary, which cannot update itself here and says so.
  on(
    'gateway1',
    JSON.stringify({
      ...state,
      phase: 'updating-primary',
      node: names[0],
      node_id: members.find(({ fqdn }) => fqdn === names[0])?.id,
      updated: [names[1]],
    }),
    'sh',
    '-c',
    `cat >${file}.new && chown gateway: ${file}.new && mv ${file}.new ${file}`,
  )
  await expect(panel).toContainText(`The update stopped at ${names[0]}`)
  await expect(verb).toBeEnabled()
  await look(page, 'cluster-update-stopped')
  on('gateway1', '', 'rm', file)
  await page.unroute('**/api/v1/system/package-versions')
})

test('a change on a standby is pending on the primary, and can be kept or undone on either', async ({
  page,
  browser,
}) => {
  await logIn(page, admin)
  const other = await onSecond(browser)
  await logIn(other, admin)
  const bar = (of: Page) => of.getByRole('region', { name: 'Change to confirm' })
  const make = async (zone: string) => {
    await other.goto('/firewall/zones/new')
    await other.getByRole('dialog').getByLabel('Name').fill(zone)
    await expect(other.getByText('Reverts unless you confirm within 60 s')).toBeVisible()
    await other.getByRole('button', { name: /^Reason and confirmation/ }).click()
    await other.getByLabel('Seconds to confirm').fill('600')
    await other.getByRole('button', { name: 'Save', exact: true }).click()
    await expect(bar(other)).toContainText('The gateway answers over a new connection.')
    await page.goto('/firewall/zones')
    await expect(bar(page)).toContainText('The gateway reverts it in')
    await expect(page.getByRole('row').filter({ hasText: zone })).toBeVisible()
  }
  await make('kept')
  await bar(other).getByRole('button', { name: 'Keep' }).click()
  await expect(bar(other)).toBeHidden()
  await expect(bar(page)).toBeHidden()

  await make('undone')
  await bar(page).getByRole('button', { name: 'Undo now' }).click()
  await expect(bar(page)).toBeHidden()
  await expect(other.getByRole('status', { name: 'Change to confirm' })).toContainText('It was discarded.')
  for (const one of [page, other]) {
    await one.goto('/firewall/zones')
    await expect(one.getByRole('row').filter({ hasText: 'kept' })).toBeVisible()
    await expect(one.getByRole('row').filter({ hasText: 'undone' })).toHaveCount(0)
  }
  await other.context().close()
})

test('a standby says where to make changes, is promoted while the primary is away, and changes that only the primary had are applied again', async ({
  page,
  browser,
}) => {
  await logIn(page, admin)
  const other = await onSecond(browser)
  await logIn(other, admin)
  const banner = other.getByRole('main')
  await expect(banner).toContainText(`This node is a standby. Changes are made on ${names[0]}, which is the primary.`)
  await other.goto('/network/interfaces')
  await expect(banner).toContainText(`These settings belong to ${names[1]} only.`)
  await look(other, 'cluster-standby')

  cable('cut')
  await other.goto('/system/cluster')
  await expect(banner).toContainText(`The primary, ${names[0]}, does not answer.`)
  await look(other, 'cluster-away')
  await other.getByRole('link', { name: 'Promote this node…' }).click()
  const dialog = other.getByRole('dialog')
  await expect(dialog).toContainText('Changes that it has not sent to this node are missing here.')
  const promote = dialog.getByRole('button', { name: 'Promote anyway' })
  await expect(promote).toBeDisabled()
  await dialog.getByRole('textbox').fill(names[1])
  await look(other, 'cluster-promote')
  await promote.click()
  await expect(card(other, names[1])).toHaveAttribute('data-role', 'primary')

  // The former primary does not know yet, and accepts a change.
  const zone = await page.request.post('/api/v1/dns/zones', { data: { name: 'alone.example.net' } })
  expect(zone.status(), await zone.text()).toBe(201)
  cable('heal')
  await expect(card(other, names[0])).toHaveAttribute('data-role', 'standby', { timeout: 120_000 })
  await expect(other.getByText('following')).toBeVisible()
  const files = other.getByRole('table', { name: 'Changes that only one node had' })
  await expect(files).toContainText(names[0])
  await look(other, 'cluster-differences')
  await files.getByRole('link').first().click()
  const row = other.getByRole('checkbox', { name: 'alone.example.net' })
  await row.check()
  await look(other, 'cluster-rows')
  await other.getByRole('button', { name: 'Apply 1 row' }).click()
  await expect(other.getByRole('dialog').getByText('is the same now')).toBeVisible()
  const now = await (await other.request.get('/api/v1/dns/zones')).json()
  expect(now.data.map(({ name }: { name: string }) => name)).toContain('alone.example.net')
  await other.getByRole('dialog').getByRole('button', { name: 'Close' }).first().click()

  await files.getByRole('button', { name: /^Delete: / }).click()
  await other.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
  await expect(files).toHaveCount(0)
  await card(other, names[0]).getByRole('button', { name: 'Remove' }).click()
  await other.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
  await expect(other.getByText('This gateway works alone')).toBeVisible()
})
