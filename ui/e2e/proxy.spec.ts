import type { Locator, Page } from '@playwright/test'
import { choose, clear, expect, expectAccessible, make, makeAll, moveUp, read, selfMade, test } from './gateway'

// Each test continues where the previous one stopped. Reloading the proxy may drop the connection of a poll; the
// console retries.
test.describe.configure({ mode: 'serial' })
const reload = 'net::ERR_FAILED'
test.use({ expected: [reload] })

const site = 'shop.example.net'
/** Deletes all sites, and ends maintenance. */
async function clean() {
  for (const path of ['/domains', '/backends']) await clear(path)
  for (const { id, names } of await read('/certificates'))
    if ((names as string[]).includes(site)) await clear('/certificates', id)
  await make('/system/maintenance', { enabled: false })
}
test.beforeAll(clean)
test.afterAll(clean)

const row = (page: Page, text: string) => page.getByRole('row').filter({ hasText: text })
const form = (page: Page) => page.getByRole('dialog')
const save = (where: Page | Locator) => where.getByRole('button', { name: 'Save', exact: true }).click()

/** What the API has stored, whatever the page shows. */
const stored = (path: string) => read<Record<string, never>[]>(path)

test.describe('a site', () => {
  test.use({ expected: [400, 409, reload] })

  test('is created in one form, and errors are shown at their fields', async ({ page }) => {
    await page.goto('/proxy/domains')
    await page.getByRole('link', { name: 'Add a domain' }).click()
    await form(page).getByRole('textbox', { name: 'Name' }).fill(site)
    await form(page).getByLabel('Server address').fill('not an address')
    await form(page).getByLabel('Port').fill('70000')
    await save(form(page))
    await expect(form(page).getByLabel('Server address')).toHaveAttribute('aria-invalid', 'true')
    expect(await stored('/backends')).toHaveLength(0)

    await form(page).getByLabel('Server address').fill('10.10.0.2')
    await form(page).getByLabel('Port').fill('8080')
    await page.getByRole('button', { name: 'Preview changes' }).click()
    const preview = page.getByRole('region', { name: 'Preview changes' })
    await expect(preview).toContainText('1 backend created, 1 server created, 1 domain created')
    await save(form(page))
    await expect(page.getByRole('list', { name: 'What was created' }).getByRole('link', { name: site })).toHaveCount(2)
    await page.keyboard.press('Escape')
    await expect(form(page)).toBeHidden()
    await expect(row(page, site)).toBeVisible()
    await expect(row(page, site).getByRole('link', { name: site }).nth(1)).toBeVisible()
    const [backend] = await stored('/backends')
    expect(backend).toMatchObject({ name: site, servers: [{ address: '10.10.0.2', port: 8080 }] })

    await page.getByRole('link', { name: 'Add a domain' }).click()
    await form(page).getByRole('textbox', { name: 'Name' }).fill(site)
    await form(page).getByText('Existing backend').click()
    await choose(page, 'Backend', site)
    await save(form(page))
    await expect(form(page).getByRole('textbox', { name: 'Name' })).toHaveAttribute('aria-invalid', 'true')
  })
})

test('a domain has its flags, its limits and its headers', async ({ page }) => {
  await page.goto(`/proxy/domains?q=${site}`)
  await row(page, site).getByRole('link', { name: site }).first().click()
  await form(page).getByLabel('HTTPS only (HSTS)').check({ force: true })
  await form(page).getByRole('textbox', { name: 'Largest request body' }).fill('25')
  await form(page).getByLabel('Rate limit per client').check({ force: true })
  await form(page).getByLabel('Requests', { exact: true }).fill('50')

  await page.getByRole('button', { name: 'Add a header' }).click()
  const headers = page.getByRole('region', { name: 'Response headers' })
  await headers.getByRole('combobox', { name: 'Header' }).fill('X-Frame-Options')
  await headers.getByLabel('Value').fill('DENY')
  await save(headers)
  await expect(row(headers as never, 'DENY')).toContainText('X-Frame-Options')
  await expectAccessible(page)

  // Adding a header keeps what was typed before.
  await form(page).getByRole('button', { name: 'Save', exact: true }).first().click()
  await expect(form(page)).toHaveCount(0)
  await expect(row(page, site)).toContainText('50 requests per 60 s')
  const [domain] = await stored('/domains')
  expect(domain).toMatchObject({ hsts_enabled: true, max_body_size_bytes: 25 * 1024 ** 2, rate_limit_requests: 50 })

  await row(page, site).getByRole('switch').click()
  await expect(page.getByText(`${site} is off`)).toBeVisible()
  await row(page, site).getByRole('switch').click()
})

test.describe('a backend', () => {
  test.use({ expected: [409, reload] })

  test('gets servers, and cannot be deleted while in use', async ({ page }) => {
    await page.goto('/proxy/backends')
    await row(page, site).getByRole('link', { name: site }).click()
    const servers = page.getByRole('region', { name: 'Servers' })
    await servers.getByRole('button', { name: 'Add a server' }).click()
    await servers.getByLabel('Address').fill('10.10.0.3')
    await servers.getByLabel('Weight').fill('20')
    await servers.getByLabel('Backup').check({ force: true })
    await save(servers)
    await expect(row(servers as never, '10.10.0.3:8080')).toContainText('backup')
    await servers.getByRole('button', { name: 'Edit server-2' }).click()
    await servers.getByLabel('Weight').fill('30')
    await save(servers)
    await expect(row(servers as never, '10.10.0.3:8080')).toContainText('30')
    await expectAccessible(page)

    await form(page).getByRole('button', { name: 'Delete' }).click()
    const question = page.getByRole('dialog', { name: `Delete ${site}?` })
    await expect(question.getByRole('link', { name: site })).toBeVisible()
    await expect(question.getByRole('button', { name: 'Delete', exact: true })).toBeDisabled()
  })
})

test('the rules of a domain are reordered, and one that never matches says so', async ({ page }) => {
  const [backend] = await stored('/backends')
  const [domain] = await stored('/domains')
  await make('/routing-rules', { domain_id: domain?.id, backend_id: backend?.id, path_prefix: '/api/v2' })
  await page.goto(`/proxy/domains/${domain?.id}`)
  await page.getByRole('link', { name: 'Add a rule' }).click()
  await form(page).getByLabel('Path prefix').fill('/api')
  await choose(page, 'Backend', site)
  await save(form(page))
  const paths = async () => (await stored('/routing-rules')).map(({ path_prefix }) => path_prefix)
  await expect.poll(paths).toEqual(['/api/v2', '/api'])
  await expect(page.getByText('Never matches')).toHaveCount(0)

  await moveUp(page, '/api')
  await expect.poll(paths).toEqual(['/api', '/api/v2'])
  await expect(row(page, '/api/v2')).toContainText('Never matches: /api comes first')
})

test('a certificate is uploaded, and its domain uses it', async ({ page }) => {
  const { certificate_pem, private_key_pem } = selfMade(site, 90)
  await page.goto('/proxy/domains')
  await expect(page.getByText('ACME is off')).toBeVisible()
  await page.goto('/proxy/certificates')
  await page.getByRole('link', { name: 'Upload a certificate' }).click()
  await form(page).getByLabel('Certificate and chain', { exact: false }).first().fill(certificate_pem)
  const [chooser] = await Promise.all([
    page.waitForEvent('filechooser'),
    page.getByRole('button', { name: 'Choose a file: Private key' }).click(),
  ])
  await chooser.setFiles({ name: 'key.pem', mimeType: 'text/plain', buffer: Buffer.from(private_key_pem) })
  await save(form(page))
  await expect(form(page)).toBeHidden()
  const uploaded = row(page, site).filter({ hasText: 'uploaded' })
  await expect(uploaded).toContainText(/(89|90) days left/)
  await page.goto(`/proxy/domains?q=${site}`)
  await expect(row(page, site)).toContainText(/(89|90) days left/)
})

test('the statistics show what the proxy does, or why that is unknown', async ({ page }) => {
  await page.goto('/proxy/statistics')
  for (const name of ['HAProxy', 'Last hour', 'Frontends', 'Backends and servers']) {
    await expect(page.getByRole('heading', { name, exact: true })).toBeVisible()
  }
  await page.getByRole('link', { name: /haproxy.cfg/ }).click()
  await expect(page).toHaveURL(/components\/reverse-proxy/)
})

test('a site is closed after a question, and opened again', async ({ page }) => {
  await page.goto(`/proxy/domains?q=${site}`)
  const act = async (name: string) => {
    await row(page, site)
      .getByRole('button', { name: `More actions for ${site}` })
      .click()
    await page.getByRole('menuitem', { name }).click()
  }
  await act('Turn on maintenance')
  await expect(form(page)).toContainText('Visitors of this site see the maintenance page')
  await form(page).getByRole('button', { name: 'Cancel' }).click()
  await act('Turn on maintenance')
  await form(page).getByRole('button', { name: 'Turn on' }).click()
  await expect(row(page, site)).toContainText('maintenance')
  await act('Turn off maintenance')
  await expect(row(page, site)).not.toContainText('maintenance')
})

test('all sites are closed at once, and opened again', async ({ page }) => {
  await test.step('not without a question', async () => {
    await page.goto('/system/settings')
    await page.getByLabel('Maintenance').click({ force: true })
    await expect(form(page)).toContainText('Visitors of 1 site')
    await form(page).getByRole('button', { name: 'Cancel' }).click()
    await expect(page.getByLabel('Maintenance')).not.toBeChecked()
  })
  await page.goto('/proxy/domains')
  await page.getByRole('button', { name: 'More actions for Domains' }).click()
  await page.getByRole('menuitem', { name: 'Maintenance mode' }).click()
  await expect(form(page)).toContainText('Visitors of 1 site')
  await form(page).getByRole('button', { name: 'Turn on' }).click()
  await expect(page.getByText('Maintenance mode is on for all sites')).toBeVisible()
  await page.getByRole('button', { name: 'Turn off' }).click()
  await form(page).getByRole('button', { name: 'Turn off' }).click()
  await expect(page.getByText('Maintenance mode is on for all sites')).toHaveCount(0)
})

test('the palette finds a site by its server', async ({ page }) => {
  await page.goto('/')
  await expect(page.getByRole('region', { name: 'Proxy' })).toContainText('Backends')
  await page.keyboard.press('Control+K')
  await page.getByPlaceholder('Search pages, objects and actions…').fill('10.10.0.3')
  await page.getByRole('button', { name: new RegExp(`${site}.*Backends`) }).click()
  await expect(page).toHaveURL(/\/proxy\/backends\/.+/)
})

test('with many domains, only visible rules are drawn', async ({ page }) => {
  const backend_id = crypto.randomUUID()
  const names = Array.from({ length: 120 }, (_, index) => `many${index}.example.net`)
  await makeAll([
    { kind: 'proxy.backend', id: backend_id, body: { name: 'many' } },
    ...names.flatMap((name) => {
      const domain_id = crypto.randomUUID()
      const rule = { domain_id, path_prefix: '/app', backend_id }
      return [
        { kind: 'proxy.domain', id: domain_id, body: { name, backend_id } },
        { kind: 'proxy.routing-rule', id: crypto.randomUUID(), body: rule },
      ]
    }),
  ])
  await page.goto('/proxy/routing?q=many')
  const tables = page.getByRole('table')
  await expect(tables.first()).toBeVisible()
  expect(await tables.count()).toBeLessThan(names.length)
  const last = page.getByRole('table', { name: `Routing rules: ${names.at(-1)}` })
  await expect(last).toHaveCount(0)
  await expect(async () => {
    await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight))
    await expect(last).toBeInViewport({ timeout: 1000 })
  }).toPass()
})
