import { choose, expect, expectAccessible, settled, test } from './gateway'

const base = '/operations/diagnostics'

test('a tool shows its output while it runs, and stays in the history', async ({ page }) => {
  await page.goto('/')
  await page.getByRole('link', { name: 'Diagnostics' }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'Diagnostics' })).toBeVisible()
  await page.getByLabel('Host name or address').fill('127.0.0.1')
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  const output = page.getByRole('log', { name: 'Output' })
  // Four pings take three seconds, so the first line shows up before the last.
  await expect(output).toContainText('icmp_seq=1')
  await expect(page.getByText('Running').first()).toBeVisible()
  await expect(output).toContainText('4 received, 0% packet loss', { timeout: 40_000 })
  await expect(page.getByText(/^Succeeded/).first()).toBeVisible()

  await page.getByText('TCP port', { exact: true }).click()
  await page.getByLabel('Port', { exact: true }).fill('9')
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await expect(output).toContainText('the connection is refused')
  await expect(page.getByText(/^Failed, exit status 1/).first()).toBeVisible()

  await page.getByRole('button', { name: 'ping 127.0.0.1', exact: true }).click()
  await expect(output).toContainText('packet loss')
  await expect(page.getByRole('button', { name: 'Copy' })).toBeVisible()
  await settled(page)
  await expectAccessible(page)
})

test.describe('a running tool', () => {
  // A stopped run may answer before the browser aborts the request.
  test.use({ expected: [503] })

  test('can be stopped', async ({ page }) => {
    await page.goto(`${base}?tool=ping&target=10.10.0.2`)
    await page.getByRole('button', { name: 'Run', exact: true }).click()
    await expect(page.getByRole('log', { name: 'Output' })).toContainText('icmp_seq=1')
    await page.getByRole('button', { name: 'Stop' }).click()
    await expect(page.getByText('Stopped by you').first()).toBeVisible()
    await expect(page.getByRole('button', { name: 'Run', exact: true })).toBeVisible()
  })
})

test.describe('a bad target', () => {
  test.use({ expected: [400] })

  test('is refused at its field', async ({ page }) => {
    await page.goto(`${base}?tool=curl&target=file:///etc/passwd`)
    await page.getByRole('button', { name: 'Run', exact: true }).click()
    await expect(page.getByRole('textbox', { name: 'URL' })).toHaveAttribute('aria-invalid', 'true')
    await expect(page.getByText('must begin with http:// or https://')).toBeVisible()
  })
})

test('the path to a destination is drawn as far as it gets', async ({ page }) => {
  await page.goto(`${base}/reachability?from=zone:lan&destination=10.10.0.1&port=3443`)
  await page.getByRole('button', { name: 'Check', exact: true }).click()
  const chain = page.getByRole('main').getByRole('listitem')
  await expect(chain.filter({ hasText: 'Firewall' })).toContainText('OK')
  await expect(chain.filter({ hasText: 'Certificate' })).toContainText('Check this')
  await settled(page)
  await expectAccessible(page)

  await choose(page, 'From', 'An address')
  await page.getByLabel('Source address').fill('198.51.100.2')
  await page.getByLabel('To: host name or address').fill('10.10.0.2')
  await page.getByLabel('Port', { exact: true }).fill('22')
  await page.getByRole('button', { name: 'Check', exact: true }).click()
  await expect(chain.filter({ hasText: 'Firewall' })).toContainText('Fails here')
  await expect(chain.filter({ hasText: 'Destination' })).toContainText('Not reached')
  await expect(page.getByText(/Add a rule under Firewall, Rules/)).toBeVisible()
  await expectAccessible(page)
})

test('connections are listed, filtered, and ended', async ({ page }) => {
  await page.goto(`${base}/connections`)
  const table = page.getByRole('table', { name: 'Connections' })
  // The browser's own connection is in the list.
  await page.getByLabel('Source', { exact: true }).fill('10.10.0.2')
  await page.getByLabel('Port', { exact: true }).fill('3443')
  await expect(table.getByText('10.10.0.1:3443').first()).toBeVisible()
  await expect(page.getByText(/\d+ of \d+ match/)).toBeVisible()
  await settled(page)
  await expectAccessible(page)
  // End an established connection: a closed one may be gone from the table by then.
  await table
    .getByRole('row')
    .filter({ has: page.getByText('Established', { exact: true }) })
    .getByRole('button', { name: /^End: tcp 10.10.0.2/ })
    .first()
    .click()
  const question = page.getByRole('dialog', { name: 'End this connection?' })
  await expect(question).toContainText('checked against the current rules')
  await question.getByRole('button', { name: 'End', exact: true }).click()
  await expect(page.getByText('Connection removed from the table')).toBeVisible()
})

test('packets are captured to a file', async ({ page }) => {
  await page.goto(`${base}/capture`)
  await choose(page, 'Interface', 'lo')
  await page.getByLabel('Seconds').fill('120')
  await page.getByLabel('Maximum packets').fill('2')
  await page.getByRole('button', { name: 'Start', exact: true }).click()
  await expect(page.getByRole('timer')).toBeVisible()
  await expectAccessible(page)
  // Creates traffic to capture.
  await page.request.post('/api/v1/diagnostics/ping', { data: { target: '127.0.0.1' } })
  const file = page.waitForEvent('download')
  await page.getByRole('link', { name: 'Download' }).click({ timeout: 60_000 })
  expect((await file).suggestedFilename()).toMatch(/^lo-\d{8}-\d{6}\.pcap$/)
  await expect(page.getByText(/^2 packets, /)).toBeVisible()
})
