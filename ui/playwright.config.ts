import { defineConfig } from '@playwright/test'
import { baseURL, launch, results, sessionFile } from './e2e/gateway'

// One gateway, one state: the tests run one after the other, and those behind the door after the door's.
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
    // A trace is dear: it takes half as much again. Who needs one asks for it: GATEWAY_PLAYWRIGHT="e2e --trace on".
    screenshot: 'only-on-failure',
    // As a person does: nobody acts on what he sees in the very millisecond in which it appears.
    launchOptions: { ...launch, slowMo: 30 },
  },
  projects: [
    { name: 'door', testMatch: 'door.setup.ts' },
    // Two gateways of their own: see TestCluster in test/e2e.
    { name: 'cluster', testMatch: 'cluster.spec.ts' },
    {
      name: 'e2e',
      testMatch: '*.spec.ts',
      testIgnore: 'cluster.spec.ts',
      dependencies: ['door'],
      use: { storageState: sessionFile },
    },
    { name: 'bench', testMatch: 'lists.bench.ts', use: { launchOptions: launch } },
    { name: 'screenshots', testMatch: 'screenshots.ts', dependencies: ['door'], use: { storageState: sessionFile } },
  ],
})
