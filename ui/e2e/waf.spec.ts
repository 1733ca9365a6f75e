import type { Locator, Page } from '@playwright/test'
import {
  byAPI,
  clear,
  expect,
  expectAccessible,
  expectNoSidewaysScroll,
  logIn,
  makeUser,
  put,
  read,
  settled,
  test,
} from './gateway'
import { found, makeDomain, search } from './waf'

// Each test continues where the previous one stopped. Reloading the proxy may drop the connection of a poll; the
// console retries.
test.describe.configure({ mode: 'serial' })
const reload = 'net::ERR_FAILED'
test.use({ expected: [reload] })

const row = (where: Page | Locator, text: string) => where.getByRole('row').filter({ hasText: text })
const form = (page: Page) => page.getByRole('dialog')
const save = (where: Page | Locator) => where.getByRole('button', { name: 'Save', exact: true }).click()

const stored = (path: string) => read<Record<string, never>>(path)

let docs = { id: '', name: 'docs.example.net' }
const withoutAlerts = () => byAPI((api) => api.delete('/api/v1/waf/alerts'))
test.beforeAll(async () => {
  await withoutAlerts()
  docs = await makeDomain(docs.name)
})
test.afterAll(async () => {
  await withoutAlerts()
  for (const path of ['/domains', '/backends']) await clear(path, docs.name)
})

test.describe('a domain', () => {
  test.use({ expected: [400, reload] })

  test('is inspected after it is enabled, and invalid rules are shown with their line', async ({ page }) => {
    await page.goto('/')
    await page.getByRole('navigation', { name: 'Areas' }).getByRole('link', { name: 'WAF', exact: true }).click()
    const { state } = await stored('/waf/status')
    await expect(
      page.getByText(state === 'up' ? 'agent running' : 'No domain uses the WAF', { exact: true }),
    ).toBeVisible()
    await expect(row(page, docs.name)).toContainText('off')
    await row(page, docs.name).getByRole('link', { name: docs.name }).click()
    await expect(form(page)).toContainText(`WAF: ${docs.name}`)

    await form(page).getByLabel('Inspect requests').check({ force: true })
    await form(page).getByLabel('2: finds more disguised attacks').check({ force: true })
    await form(page).getByRole('button', { name: 'Add a rule' }).click()
    await form(page).getByLabel('Rule, row 1').fill('920350')
    await form(page).getByLabel('Why, row 1').fill('Monitoring asks by address.')
    const rules = form(page).getByLabel('Rules', { exact: true })
    await rules.fill('# Nothing may be read.\nInclude /etc/passwd')
    await save(form(page))
    await expect(rules).toHaveAttribute('aria-invalid', 'true')
    await expect(form(page).getByText('2 Include /etc/passwd')).toBeVisible()
    await expectAccessible(page)
    await rules.fill('SecRule ARGS:debug "@streq on" "id:100,phase:2,deny,msg:\'Debug switch\'"')
    await save(form(page))
    await expect(form(page)).toHaveCount(0)
    await expect(row(page, docs.name)).toContainText('detection')
    expect(await stored(`/waf/configs/${docs.id}`)).toMatchObject({
      enabled: true,
      mode: 'detection',
      paranoia_level: 2,
      rule_exclusions: [920350],
      exclusion_notes: { '920350': 'Monitoring asks by address.' },
      fail_open: null,
    })
    await settled(page)
    await expectAccessible(page)
  })
})

test('alerts arrive live, are filtered by the gateway, and can be shared', async ({ page }) => {
  await page.goto('/security/waf/alerts')
  await expect(page.getByText('up to date')).toBeVisible()
  await expect(page.getByText('No alerts.')).toBeVisible()
  search(docs, '192.0.2.7', { action: 'detected' })
  await expect(row(page, '192.0.2.7')).toContainText('SQL Injection Attack')
  await expect(row(page, '192.0.2.7')).toContainText('and 1 more rule')
  found({
    domain: docs,
    client: '2001:db8::7',
    uri: '/wiki/<script>',
    rules: [{ rule_id: 941100, message: 'XSS Attack Detected via libinjection' }],
  })
  await expect(row(page, '2001:db8::7')).toContainText('blocked')

  await page.getByLabel('Client', { exact: true }).fill('192.0.2.0/24')
  await expect(row(page, '2001:db8::7')).toHaveCount(0)
  await expect(page).toHaveURL(/client=192\.0\.2\.0/)
  await page.reload()
  await expect(row(page, '192.0.2.7')).toBeVisible()
  await expect(row(page, '2001:db8::7')).toHaveCount(0)
  await page.getByLabel('Client', { exact: true }).fill('')
  await expect(row(page, '2001:db8::7')).toBeVisible()

  await page.getByRole('button', { name: 'Pause' }).click()
  search(docs, '192.0.2.9', { action: 'detected' })
  await expect(page.getByText('paused, 2 new')).toBeVisible()
  await expect(row(page, '192.0.2.9')).toHaveCount(0)
  await page.getByRole('button', { name: 'Resume' }).click()
  await expect(row(page, '192.0.2.9')).toBeVisible()
  await expectAccessible(page)
})

test.describe('a filter', () => {
  test.use({ expected: [400, reload] })

  test('that the gateway refuses shows the error at its field', async ({ page }) => {
    await page.goto('/security/waf/alerts?client=somewhere')
    await expect(page.getByLabel('Client', { exact: true })).toHaveAttribute('aria-invalid', 'true')
  })
})

test('a request is explained in words, and a legitimate one becomes an exclusion', async ({ page }) => {
  // At paranoia level 1 only one rule matches.
  await put(`/waf/configs/${docs.id}`, { paranoia_level: 1 })
  const reference = search(docs, '198.51.100.23')
  await page.goto('/security/waf/alerts?client=198.51.100.23')
  await row(page, '198.51.100.23')
    .getByRole('link', { name: /search/ })
    .click()
  await expect(form(page)).toContainText('The gateway refused the request with 403.')
  await expect(form(page)).toContainText(reference)
  await expect(form(page)).toContainText('Found in parameter q')
  await expect(form(page).getByRole('region', { name: 'Headers' }).locator('mark')).toHaveText('[masked]')
  await expectAccessible(page)

  await form(page).getByRole('button', { name: 'This was legitimate' }).click()
  const proposal = form(page).getByRole('region', { name: 'Let requests like this pass' })
  await expect(proposal).toContainText('Rule 942100 no longer inspects parameter q at /search and nowhere else.')
  await expect(proposal.getByRole('region', { name: 'Now' })).toContainText('refused')
  await expect(proposal.getByRole('region', { name: 'With the exclusion' })).toContainText('passes')
  await expect(proposal).toContainText(/(All|of) \d+ attacks are still refused/)
  await settled(page)
  await expectAccessible(page)
  const add = proposal.getByRole('button', { name: 'Add exclusion' })
  await expect(add).toBeDisabled()
  await proposal.getByLabel('Why was it legitimate?').fill('People search for SQL.')
  await add.click()
  await expect(page.getByText('Exclusion saved')).toBeVisible()
  expect((await stored(`/waf/configs/${docs.id}`)).exclusions).toEqual([
    { rule_id: 942100, path: '/search', exact: true, variable: 'ARGS', parameter: 'q', note: 'People search for SQL.' },
  ])

  // The exclusion is in the domain's settings, and can be removed there.
  await page.goto(`/security/waf/domains/${docs.id}`)
  await expect(form(page).getByLabel('Parameter, row 1')).toHaveValue('q')
  await form(page).getByRole('button', { name: 'Remove row 1: Narrow exclusions' }).click()
  await save(form(page))
  await expect(form(page)).toHaveCount(0)
  expect((await stored(`/waf/configs/${docs.id}`)).exclusions).toEqual([])
})

test('switching to blocking says first whom it would refuse', async ({ page }) => {
  await page.goto('/security/waf')
  await expect(row(page, docs.name)).toContainText('requests in 7 days')
  await row(page, docs.name).getByRole('link', { name: docs.name }).click()
  await expect(form(page)).toContainText('Blocking would have refused 2 requests in the last 7 days')
  await form(page).getByText('Blocking', { exact: true }).click()
  await save(form(page))
  await expect(form(page)).toContainText('This may close the site to visitors')
  await expectAccessible(page)
  expect((await stored(`/waf/configs/${docs.id}`)).mode).toBe('detection')
  await form(page).getByRole('button', { name: 'Save anyway' }).click()
  await expect(form(page)).toBeHidden()
  await expect(row(page, docs.name)).toContainText('blocking')

  const { state } = await stored('/waf/status')
  if (state === 'down') await expect(page.getByText('1 domain refuses all its requests with 503.')).toBeVisible()
  await page.goto('/')
  const tile = page.getByRole('region', { name: 'Security' })
  await expect(tile).toContainText('2 blocked')
  if (state === 'down') await expect(tile).toContainText('agent down')
})

test('rules can be searched', async ({ page }) => {
  await page.goto('/security/waf/rules')
  await expect(page.getByText('The first 200 rules are shown.')).toBeVisible()
  await page.getByLabel('Search this list').fill('942100')
  await expect(row(page, '942100')).toContainText('libinjection')
  await expect(page.getByRole('table').getByRole('row')).toHaveCount(2)
  await page.getByRole('link', { name: 'Alerts of rule 942100' }).click()
  await expect(row(page, '192.0.2.7')).toBeVisible()
  await expect(row(page, '2001:db8::7')).toHaveCount(0)
})

test.describe('a viewer', () => {
  test.use({ storageState: { cookies: [], origins: [] }, expected: [401, reload] })

  test('sees everything, but no actions', async ({ page }) => {
    await logIn(page, await makeUser('waf-viewer'))
    await page.goto('/security/waf/alerts?client=198.51.100.23')
    await row(page, '198.51.100.23')
      .getByRole('link', { name: /search/ })
      .click()
    await expect(form(page)).toContainText('rule 942100')
    await expect(page.getByRole('button', { name: /legitimate/ })).toHaveCount(0)
    await expect(page.getByRole('button', { name: 'Delete alerts' })).toHaveCount(0)
  })
})

test.describe('on a phone', () => {
  test.use({ viewport: { width: 390, height: 844 } })

  test('pages with content fit', async ({ page }) => {
    for (const path of ['', '/alerts', `/domains/${docs.id}`]) {
      await page.goto(`/security/waf${path}`)
      await settled(page)
      await expectNoSidewaysScroll(page)
    }
  })
})

test('alerts are deleted after a confirmation', async ({ page }) => {
  await page.goto('/security/waf/alerts')
  await page.getByRole('button', { name: 'Delete alerts' }).click()
  await form(page).getByRole('button', { name: 'Delete alerts' }).click()
  await expect(page.getByText('No alerts.')).toBeVisible()
  expect(await stored('/waf/alerts')).toEqual([])
})
