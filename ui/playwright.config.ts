import { defineConfig } from '@playwright/test'
import { baseURL, launch, results, sessionFile } from './e2e/gateway'

// One gateway, one state: the tests run one after the other, in any order, and those behind the door after the door's, or with a key to it.
export default defineConfig({
  testDir: 'e2e',
  outputDir: results,
  workers: 1,
  retries: 1,
  // Long enough for a machine that has other work, too.
  timeout: 240_000,
  expect: { timeout: 60_000 },
  reporter: [['list'], ['./e2e/reporter.ts']],
  use: {
    baseURL,
    ignoreHTTPSErrors: true,
    viewport: { width: 1280, height: 800 },
    // What goes away is gone: nothing has to wait for it.
    contextOptions: { reducedMotion: 'reduce' },
    screenshot: 'only-on-failure',
    // A trace takes half as much time again, so only the second try has one, unless it is asked for.
    trace: process.env.GATEWAY_TRACE ? 'on' : 'on-first-retry',
    launchOptions: launch,
  },
  projects: [
    // A gateway is set up once, and a cluster is made once: their second try takes new gateways.
    { name: 'door', testMatch: 'door.setup.ts', retries: 0 },
    { name: 'key', testMatch: 'key.setup.ts', retries: 0 },
    { name: 'cluster', testMatch: 'cluster.spec.ts', retries: 0 },
    {
      name: 'e2e',
      testMatch: '*.spec.ts',
      testIgnore: 'cluster.spec.ts',
      dependencies: [process.env.GATEWAY_KEY ? 'key' : 'door'],
      use: { storageState: sessionFile },
    },
    { name: 'bench', testMatch: 'lists.bench.ts' },
    { name: 'screenshots', testMatch: 'screenshots.ts', dependencies: ['door'], use: { storageState: sessionFile } },
  ],
})
