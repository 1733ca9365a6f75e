import { test as base, type Page } from '@playwright/test'
import {
  barriers,
  clearAll,
  expect,
  expectAccessible,
  expectFit,
  long,
  makeAll,
  type NewRow,
  pages,
  settled,
  test,
  watch,
} from './gateway'

/** Rows for the tables. */
function someRows(): NewRow[] {
  const rows: NewRow[] = []
  const row = (kind: string, body: object) => {
    const id = crypto.randomUUID()
    rows.push({ kind, id, body })
    return id
  }
  row('ntp.pool', { kind: 'server', address: 'pages.example.net' })
  const host = row('firewall.address-object', { name: 'Pages host', kind: 'host', value: '192.0.2.80' })
  row('firewall.address-group', { name: 'Pages hosts', members: [host] })
  const service = row('firewall.service', { name: 'Pages service', protocol: 'tcp', port_start: 8631 })
  row('firewall.service-group', { name: 'Pages services', members: [service] })
  row('firewall.zone', { name: 'pages', description: 'Nothing is in it' })
  row('firewall.rule', {
    name: 'Pages rule',
    src_zone: 'lan',
    dst_zone: 'wan',
    dst_kind: 'object',
    dst_object_id: host,
    service_object_id: service,
    action: 'accept',
    labels: ['pages'],
  })
  const forward = { kind: 'dnat', in_zone: 'wan', out_zone: 'any', protocol: 'tcp', dst_port: 2525 }
  row('firewall.nat-rule', { name: 'Pages forward', ...forward, target_address: '10.10.0.25' })
  row('network.route', { destination: '192.0.2.128/25', gateway: '198.51.100.2', comment: 'A branch' })
  const backend_id = row('proxy.backend', { name: 'pages' })
  row('proxy.server', { backend_id, name: 'pages-1', address: '10.10.0.2', port: 8080 })
  const domain_id = row('proxy.domain', { name: 'pages.example.net', backend_id })
  row('proxy.routing-rule', { domain_id, backend_id, path_prefix: '/app' })
  const interface_id = row('tunnel.interface', { name: 'wg-pages', address_cidr: '10.90.0.1/24' })
  row('tunnel.peer', { interface_id, name: 'A phone' })
  const zone_id = row('dns.zone', { name: 'pages.example.net' })
  row('dns.record', { zone_id, name: 'www', type: 'A', value: '192.0.2.80' })
  const range = { range_start: '10.10.0.128', range_end: '10.10.0.199' }
  const subnet_id = row('dhcp.subnet', { interface: 'lan0', cidr: '10.10.0.0/24', ...range })
  row('dhcp.reservation', { subnet_id, mac: '52:54:00:12:34:56', ip: '10.10.0.50', hostname: 'printer' })
  row('forward-proxy.acl', { name: 'Pages entry', type: 'dstdomain', value: '.pages.example', action: 'deny' })
  row('radius.client', { name: 'pages-switch', address: '10.10.0.9', secret: 'the secret of the switch' })
  row('radius.user', { name: 'pages-user', password: 'the password of the user' })
  row('alert.channel', { name: 'Pages', kind: 'webhook', target: 'http://10.10.0.2:9/hook' })
  return rows
}

/** Navigates as a link does, so that the browser keeps the code it has loaded and compiled. */
async function visit(page: Page, path: string) {
  const nowhere = page.getByRole('heading', { level: 1, name: 'Page not found.' })
  const go = (to: string) => page.evaluate((to) => history.pushState(null, '', to), to)
  await go('/no/such/page')
  await expect(nowhere).toBeVisible()
  await go(path)
  await expect(nowhere).toBeHidden()
}

// Each page is accessible and without errors: in the long run in both schemes, on a desktop, at 200% zoom and on a
// phone.
base.describe(() => {
  const rows = someRows()
  let page: Page
  let problems: string[]

  base.beforeAll(async ({ browser }) => {
    await makeAll(rows)
    page = await browser.newPage()
    problems = await watch(page)
    await page.goto('/')
  })
  base.afterAll(async () => {
    await page.close() // it would request the rows that are deleted next
    await clearAll(rows)
  })

  for (const [name, path] of Object.entries(pages)) {
    base(name, async () => {
      const loaded = await page.request.get(path, { headers: { Accept: 'text/html' } })
      expect(loaded.headers()['content-type']).toContain('text/html')
      await visit(page, path)
      await settled(page)
      await (long ? expectFit : expectAccessible)(page)
      expect(problems.splice(0)).toEqual([])
    })
  }
})

test('accessibility violations are found', async ({ page }) => {
  await page.goto('/')
  await settled(page)
  await page.evaluate(() => {
    const input = document.createElement('input')
    const pale = Object.assign(document.createElement('p'), { textContent: 'hardly to be read' })
    Object.assign(pale.style, { color: '#ddd', background: '#fff' })
    document.querySelector('main')?.prepend(input, pale)
  })
  expect(await barriers(page)).toEqual([
    expect.stringMatching(/^color-contrast: .*hardly/),
    expect.stringMatching(/^label: <input>/),
  ])
})
