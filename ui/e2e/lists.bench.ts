import { writeFileSync } from 'node:fs'
import { type CDPSession, type Page, test } from '@playwright/test'
import { admin, baseURL, logIn } from './gateway'

// Measures how smoothly the console scrolls lists with thousands of rows. `go run ./test/bench -only console` runs it
// and judges the results.

declare global {
  interface Window {
    /** Milliseconds from the last key press to the next frame. */
    drawn: Promise<number>
  }
}

const total = Number(process.env.GATEWAY_ROWS ?? 10_000)
const rounds = Number(process.env.GATEWAY_ROUNDS ?? 3)

/** One or two rows of every kind that has a list. */
const seed = `
gateway: 1
firewall.address-object:
  - {name: berlin, kind: network, value: 192.0.2.0/24}
firewall.address-group:
  - {name: offices, members: [berlin]}
firewall.service:
  - {name: game, protocol: udp, port_start: 27000, port_end: 27030}
firewall.service-group:
  - {name: play, members: [game]}
firewall.rule:
  - {name: offices to the internet, src_zone: lan, src_kind: group, src_group_id: offices, dst_zone: wan, service_group_id: play, action: accept, labels: [office]}
firewall.nat-rule:
  - {name: web, kind: dnat, in_zone: wan, protocol: tcp, dst_port: 8080, target_address: 10.10.0.9, target_port: 80}
network.interface:
  - {name: lan0, type: ethernet, role: lan}
network.ip-address:
  - {interface_id: lan0, address: 10.10.0.1, prefix: 24}
network.route:
  - {destination: 203.0.113.0/24, gateway: 10.10.0.9}
proxy.backend:
  - {name: web}
proxy.server:
  - {backend_id: web, name: web 1, address: 10.10.0.11, port: 8080}
proxy.domain:
  - {name: www.example.net, backend_id: web, certificate_id: www.example.net}
proxy.routing-rule:
  - {domain_id: www.example.net, path_prefix: /v2, backend_id: web}
certificate.dns-provider:
  - {name: desec, kind: desec, secret: t0ken, zones: [example.org]}
certificate.certificate:
  - {names: [www.example.net], source: self-signed, domain_id: www.example.net}
tunnel.interface:
  - {name: wg0, address_cidr: 10.8.0.1/24, listen_port: 51820, endpoint_host: vpn.example.net}
tunnel.peer:
  - {interface_id: wg0, name: phone, allowed_ips: 10.8.0.2/32}
dns.zone:
  - {name: corp.example.net}
dns.record:
  - {zone_id: corp.example.net, name: mail, type: A, value: 10.10.0.25}
dhcp.subnet:
  - {interface: lan0, cidr: 10.10.0.0/24, range_start: 10.10.0.100, range_end: 10.10.0.200}
dhcp.reservation:
  - {subnet_id: 10.10.0.0/24, mac: "02:00:00:00:00:01", ip: 10.10.0.50, hostname: printer}
ntp.pool:
  - {address: time.example.net, kind: server}
forward-proxy.acl:
  - {name: no ads, type: dstdomain, value: .ads.example.net, action: deny}
radius.client:
  - {name: ap, address: 10.10.0.7, secret: s3cret}
radius.user:
  - {name: ann, password: pass word}
alert.channel:
  - {name: hook, kind: webhook, target: "https://hooks.example.net/a", active: false}
backup.remote:
  - {name: bucket, kind: s3, active: false, settings: {endpoint: s3.example.net, bucket: backups, access_key: k, secret_key: s3cret}}
`

/**
 * The pages with a list, by name. Left out are those that are never that long: leases, clients, connections, alerts and
 * archives, which the gateway pages, and jobs, whose number is fixed.
 */
const lists: Record<string, string> = {
  rules: '/firewall/rules',
  NAT: '/firewall/nat',
  objects: '/firewall/objects',
  'object groups': '/firewall/objects/groups',
  services: '/firewall/services',
  'service groups': '/firewall/services/groups',
  zones: '/firewall/zones',
  interfaces: '/network/interfaces',
  addresses: '/network/addresses',
  routes: '/network/routes',
  'live routes': '/network/routes/live',
  domains: '/proxy/domains',
  backends: '/proxy/backends',
  routing: '/proxy/routing',
  certificates: '/proxy/certificates',
  providers: '/proxy/certificates/providers',
  tunnels: '/vpn/tunnels',
  'DNS zones': '/services/dns',
  subnets: '/services/dhcp/subnets',
  reservations: '/services/dhcp/reservations',
  'time sources': '/services/ntp/servers',
  'access list': '/services/forward-proxy',
  'RADIUS users': '/services/radius',
  'RADIUS clients': '/services/radius/clients',
  'WAF domains': '/security/waf',
  users: '/system/users',
  channels: '/operations/alerts/channels',
  targets: '/operations/backups/targets',
  history: '/operations/history',
  audit: '/operations/audit',
  tokens: '/profile/tokens',
  sessions: '/profile/sessions',
}

interface Frames {
  perSecond: number
  /** The longest time between two frames, in milliseconds. */
  longest: number
  /** The share of frames that took longer than 25 ms. */
  late: number
}

/** Scrolls the list of a page for two seconds, and measures the frames. */
const scroll = (page: Page) =>
  page.evaluate(async (): Promise<Frames> => {
    const all = [...document.querySelectorAll('*')].filter((one) => one.scrollHeight > one.clientHeight + 1000)
    const scroller =
      all.find((one) => one.matches('[role=rowgroup]')) ??
      all.find((one) => getComputedStyle(one).overflowY !== 'visible') ??
      document.documentElement
    const frame = () => new Promise<number>((resolve) => requestAnimationFrame(resolve))
    for (let i = 0; i < 5; i++) await frame()
    const start = await frame()
    const taken: number[] = []
    for (let last = start, top = 0; last - start < 2000; ) {
      // Keeps its own count: reading the position would force a layout.
      top += 120
      scroller.scrollTo(0, top)
      const now = await frame()
      taken.push(now - last)
      last = now
    }
    const sum = taken.reduce((a, b) => a + b, 0)
    return {
      perSecond: (1000 * taken.length) / sum,
      longest: Math.max(...taken),
      late: taken.filter((time) => time > 25).length / taken.length,
    }
  })

/**
 * The main thread's CPU time per frame of a scrolled list, in milliseconds. Other load on the machine does not count.
 */
interface Cost {
  all: number
  script: number
  style: number
  layout: number
}

const parts = { all: 'TaskDuration', script: 'ScriptDuration', style: 'RecalcStyleDuration', layout: 'LayoutDuration' }

/** Scrolls the list of a page for some frames, and asks the browser for its main thread's time. */
async function cost(page: Page, browser: CDPSession, frames = 100): Promise<Cost> {
  const spent = async () => {
    const { metrics } = await browser.send('Performance.getMetrics')
    return new Map(metrics.map(({ name, value }) => [name, 1000 * value]))
  }
  const before = await spent()
  await page.evaluate(async (frames) => {
    const all = [...document.querySelectorAll('*')].filter((one) => one.scrollHeight > one.clientHeight + 1000)
    const scroller = all.find((one) => one.matches('[role=rowgroup]')) ?? document.documentElement
    const frame = () => new Promise<number>((resolve) => requestAnimationFrame(resolve))
    for (let i = 1; i <= frames; i++) {
      scroller.scrollTo(0, 60_000 + 120 * i)
      await frame()
    }
  }, frames)
  const after = await spent()
  const of = (name: string) => ((after.get(name) ?? 0) - (before.get(name) ?? 0)) / frames
  return Object.fromEntries(Object.entries(parts).map(([part, name]) => [part, of(name)])) as unknown as Cost
}

/**
 * Types a word into a list's search, and returns the longest time from a key press to the next frame, in milliseconds.
 */
async function type(page: Page): Promise<number> {
  const field = page.getByRole('textbox', { name: 'Search' })
  if ((await field.count()) === 0) return 0
  await field.first().focus()
  let slowest = 0
  for (const letter of 'row9') {
    await page.evaluate(() => {
      window.drawn = new Promise((resolve) =>
        window.addEventListener(
          'keydown',
          ({ timeStamp }) => requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - timeStamp))),
          { once: true, capture: true },
        ),
      )
    })
    await page.keyboard.press(letter)
    slowest = Math.max(slowest, await page.evaluate(() => window.drawn))
  }
  return slowest
}

/**
 * Multiplies a few rows: each copy gets its own id, and its own name if it has one. Each audit entry gets its own
 * change set.
 */
function many(rows: Record<string, unknown>[]) {
  if (rows.length === 0 || typeof rows[0] !== 'object') return rows
  const naming = ['name', 'hostname', 'address', 'email'].find((key) => typeof rows[0]?.[key] === 'string')
  return Array.from({ length: Math.max(total, rows.length) }, (_, i) => {
    const row = rows[i % rows.length] as Record<string, unknown>
    if (i < rows.length) return row
    const tail = String(i).padStart(12, '0')
    return {
      ...row,
      ...(typeof row.id === 'string' && { id: `00000000-0000-4000-8000-${tail}` }),
      ...(typeof row.details === 'object' && { details: { ...row.details, change_set: tail } }),
      ...(naming && { [naming]: `row${i} ${row[naming]}` }),
    }
  })
}

test('lists', async ({ browser }) => {
  test.setTimeout(3_600_000)
  const context = await browser.newContext({ baseURL, ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 } })
  const page = await context.newPage()
  await logIn(page, admin)
  const headers = { 'Content-Type': 'application/yaml', Origin: baseURL }
  const stored = await context.request.post('/api/v1/configuration/apply', { headers, data: seed })
  if (!stored.ok()) throw new Error(await stored.text())

  const token = await context.request.post('/api/v1/api-tokens', {
    headers: { Origin: baseURL },
    data: { name: 'bench', role: 'viewer' },
  })
  if (!token.ok()) throw new Error(await token.text())
  const first = async (path: string) => (await (await context.request.get(`/api/v1${path}`)).json()).data[0].id
  const below = {
    'DNS records': `/services/dns/zones/${await first('/dns/zones')}`,
    peers: `/vpn/tunnels/${await first('/tunnel/interfaces')}`,
  }

  // Multiplies the rows in every answer of the gateway.
  await page.route(/\/api\/v1\//, async (route) => {
    if (route.request().method() !== 'GET') return route.continue()
    const response = await route.fetch()
    if (!response.headers()['content-type']?.includes('json')) return route.fulfill({ response })
    const body = await response.json()
    if (Array.isArray(body?.data) && !/components|jobs|draft|built-in/.test(route.request().url()))
      body.data = many(body.data)
    await route.fulfill({ response, json: body })
  })

  const empty = await context.newPage()
  await empty.setContent('<div style="height:370000px"></div>')
  const thread = await context.newCDPSession(page)
  await thread.send('Performance.enable', { timeDomain: 'threadTicks' })
  const only = process.env.GATEWAY_LISTS?.split(',')
  const found = []
  for (const [name, path] of Object.entries({ ...lists, ...below })) {
    if (only && !only.includes(name)) continue
    const start = Date.now()
    await page.goto(path)
    const rows = await page
      .locator('[role=row][aria-rowindex="2"]')
      .first()
      .waitFor({ timeout: 60_000 })
      .then(() =>
        page
          .locator('[role=table]')
          .evaluateAll((all) => Math.max(...all.map((one) => Number(one.getAttribute('aria-rowcount')) - 1))),
      )
      .catch(() => 0)
    const open = Date.now() - start
    const shown = await page.locator('[role=row]').count()
    const bare: Frames[] = []
    const ours: Frames[] = []
    for (let i = 0; i < rounds; i++) {
      await empty.bringToFront()
      await empty.evaluate(() => scrollTo(0, 0))
      bare.push(await scroll(empty))
      await page.bringToFront()
      ours.push(await scroll(page))
    }
    const work = await cost(page, thread)
    const typing = rows ? await type(page) : 0
    found.push({ name, rows, shown, open, typing, work, bare, ours })
    const per = (frames: Frames[]) => frames.map((one) => one.perSecond.toFixed(0)).join('/')
    const longest = Math.max(...ours.map((one) => one.longest))
    const late = Math.max(...ours.map((one) => one.late))
    console.log(
      `${name}: ${rows} rows, ${shown} drawn, open ${open} ms, ${per(ours)} fps (bare ${per(bare)}), longest ${longest.toFixed(0)} ms, late ${(late * 100).toFixed(0)} %, a frame ${work.all.toFixed(1)} ms (script ${work.script.toFixed(1)}, style ${work.style.toFixed(1)}, layout ${work.layout.toFixed(1)}), letter ${typing.toFixed(0)} ms`,
    )
  }
  writeFileSync(process.env.GATEWAY_LISTS_REPORT ?? '/dev/null', JSON.stringify(found))
})
