import { readFile } from 'node:fs/promises'
import { clear, expect, expectAccessible, expectNoSidewaysScroll, make, read, test } from './gateway'

const pools = async () => (await read('/ntp/pools')).map(({ address }) => address)

// The gateway refuses an invalid document, and applying an outdated preview.
test.use({ expected: [400, 412] })

test('a document is exported, edited, previewed and applied', async ({ page }) => {
  await clear('/ntp/pools', 'exported.example.net', 'document.example.net', 'faster.example.net')
  await make('/ntp/pools', { kind: 'server', address: 'exported.example.net' })
  await page.goto('/operations/configuration')
  await page.getByRole('combobox', { name: 'Kinds' }).click()
  await page.getByRole('option', { name: 'NTP server', exact: true }).click()
  await page.keyboard.press('Escape')
  const downloading = page.waitForEvent('download')
  await page.getByRole('link', { name: 'Download YAML' }).click()
  const file = await readFile(await (await downloading).path(), 'utf8')
  expect(file).toContain('gateway: 1')
  expect(file).toContain('ntp.pool:')
  expect(file).toContain('exported.example.net')
  expect(file).not.toContain('firewall.rule')

  await page.getByRole('button', { name: 'Open in the editor' }).click()
  const editor = page.getByLabel('Document', { exact: true })
  await expect(editor).toHaveValue(file)
  const preview = page.getByRole('button', { name: 'Preview changes' })
  await preview.click()
  await expect(page.getByText('Nothing to do.')).toBeVisible()

  await editor.fill('gateway: 1\nntp.pool:\n  - address: document.example.net\n    kind: cloud\n')
  await expect(page.getByText('Nothing to do.')).toBeHidden()
  await preview.click()
  await expect(page.getByText('The document cannot be applied. Fix these first:')).toBeVisible()
  await expect(page.getByText('Line 4')).toBeVisible()

  await editor.fill('gateway: 1\nntp.pool:\n  - address: document.example.net\n    kind: server\n')
  await preview.click()
  const plan = page.getByRole('region', { name: 'Changes' })
  await expect(plan).toContainText('1 to create, 0 to change, 0 to delete.')
  await expect(plan).toContainText('document.example.net')
  await expect(plan).toContainText('server document.example.net')
  await expectAccessible(page)
  expect(await pools()).not.toContain('document.example.net')
  // Someone else changes the configuration first.
  await make('/ntp/pools', { kind: 'server', address: 'faster.example.net' })
  const apply = plan.getByRole('button', { name: 'Apply', exact: true })
  await apply.click()
  await expect(page.getByText('Someone else changed the configuration in the meantime.')).toBeVisible()
  expect(await pools()).not.toContain('document.example.net')
  await apply.click()
  await expect(page.getByText('The change is live.')).toBeVisible()
  expect(await pools()).toContain('document.example.net')
})

test('a haproxy.cfg becomes a document, and what is left out is listed', async ({ page }) => {
  await page.goto('/operations/configuration')
  await page.getByText('haproxy.cfg', { exact: true }).click()
  await page
    .getByRole('textbox', { name: 'haproxy.cfg' })
    .fill(
      [
        'defaults',
        '  mode http',
        'frontend web',
        '  bind :80',
        '  acl wiki hdr(host) -i imported.example.net',
        '  use_backend wiki if wiki',
        'backend wiki',
        '  http-request lua.magic',
        '  server a 192.0.2.10:8080',
      ].join('\n'),
    )
  await page.getByRole('button', { name: 'Convert' }).click()
  await expect(page.getByText('Converted. Review the document')).toBeVisible()
  await expect(page.getByText('http-request lua.magic')).toBeVisible()
  await expect(page.getByLabel('Document', { exact: true })).toHaveValue(/imported\.example\.net/)
  await page.getByRole('button', { name: 'Preview changes' }).click()
  await expect(page.getByRole('region', { name: 'Changes' })).toContainText('imported.example.net')
  await page.setViewportSize({ width: 390, height: 844 })
  await expectNoSidewaysScroll(page)
  await expectAccessible(page)
  // Opening the document in the editor closes the import and its preview.
  await page.getByRole('button', { name: 'Open in the editor' }).click()
  await expect(page.getByRole('region', { name: 'Changes' })).toBeHidden()
  await expect(page.getByText('Converted. Review the document')).toBeHidden()
})
