import { expect, it } from 'vitest'

// Which parts of the console may import which: each only those listed before it.
const floors = ['i18n', 'theme', 'paths', 'api', 'kit', 'areas', 'door', 'app', 'main']
const kitFloors = ['login', 'text', 'state', 'chart', 'page', 'job', 'change', 'form', 'list']

/** What an area imports from another one, and why. */
const between: Record<string, Record<string, string>> = {
  clients: { dhcp: 'the order of addresses', firewall: 'a block is a rule' },
  cluster: { network: 'the interfaces of this node', updates: 'a rolling update begins with the versions' },
  components: { logs: 'the last lines of a daemon' },
  configuration: { history: 'a plan is shown as a revert is' },
  dhcp: { network: 'the interfaces and addresses that it serves on' },
  dns: { network: 'the addresses to answer on' },
  firewall: { clients: 'the names of known addresses in the log' },
  'forward-proxy': { network: 'the addresses to listen on' },
  history: { audit: 'the entries of a change set' },
  logs: { proxy: 'the names of sites' },
  network: {
    cluster: 'the virtual addresses',
    dhcp: 'the wizard proposes ranges',
    firewall: 'the rules of a zone',
    proxy: 'the end of the wizard shows the first site',
    tunnels: 'the end of the wizard shows the first device; interfaces of tunnels',
  },
  ntp: { network: 'the addresses to serve on' },
  proxy: { certificates: 'the certificate of a site' },
  radius: { network: 'the addresses to listen on' },
  settings: { proxy: 'maintenance of all sites' },
  tunnels: { network: 'the zones of interfaces' },
  waf: { proxy: 'the names of sites' },
}

const sources = import.meta.glob<string>('./**/*.{ts,tsx}', { query: '?raw', import: 'default', eager: true })
const specifier = /(?:from|import|import\()\s*['"](\.[^'"]*)['"]/g

/** All imports between files, as paths relative to this folder. */
const imports = Object.entries(sources)
  .filter(([file]) => !/\.test\.|test-setup/.test(file))
  .flatMap(([file, source]) =>
    [...source.matchAll(specifier)].map(([, to]) => ({
      from: file.slice(2),
      to: new URL(to as string, `file:///${file.slice(2)}`).pathname.slice(1),
    })),
  )

const partOf = (path: string, level: number) => path.split('/')[level]?.replace(/\.tsx?$/, '') ?? ''
const says = ({ from, to }: { from: string; to: string }) => `${from} -> ${to}`

it('lets no part of the console import one above it', () => {
  expect(imports.length).toBeGreaterThan(1000)
  const upwards = (order: string[], level: number) => (one: { from: string; to: string }) =>
    order.indexOf(partOf(one.from, level)) < order.indexOf(partOf(one.to, level))
  // The console is loaded while the server checks the password.
  const allowed = ['door/Login.tsx -> app/App']
  expect(
    imports
      .filter(upwards(floors, 0))
      .map(says)
      .filter((one) => !allowed.includes(one)),
  ).toEqual([])
  const inKit = imports.filter(({ from, to }) => partOf(from, 0) === 'kit' && partOf(to, 0) === 'kit')
  expect(inKit.filter(upwards(kitFloors, 1)).map(says)).toEqual([])
})

it('lets areas import each other only for a reason', () => {
  const found = imports
    .filter(({ from, to }) => from.startsWith('areas/') && to.startsWith('areas/'))
    .map((one) => ({ from: partOf(one.from, 1), to: partOf(one.to, 1), says: says(one) }))
    // The overview uses all areas.
    .filter(({ from, to }) => from !== to && from !== 'overview')
  expect(found.filter(({ from, to }) => !between[from]?.[to]).map((one) => one.says)).toEqual([])
  const needed = new Set(found.map(({ from, to }) => `${from} ${to}`))
  const named = Object.entries(between).flatMap(([from, all]) => Object.keys(all).map((to) => `${from} ${to}`))
  expect(named.filter((one) => !needed.has(one))).toEqual([])
})
