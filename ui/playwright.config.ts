import { defineConfig } from '@playwright/test'
import { baseURL, launch, results, sessionFile } from './e2e/gateway'

// All tests share one gateway, so they run one after the other, in any order. The setup tests, or the setup through the
// API, come first.
export default defineConfig({
  testDir: 'e2e',
  outputDir: results,
  workers: 1,
  retries: 1,
  // Allows for a busy machine.
  timeout: 240_000,
  expect: { timeout: 60_000 },
  reporter: [['list'], ['./e2e/reporter.ts']],
  use: {
    baseURL,
    ignoreHTTPSErrors: true,
    viewport: { width: 1280, height: 800 },
    // Closed elements disappear at once, so no test waits for animations.
    contextOptions: { reducedMotion: 'reduce' },
    screenshot: 'only-on-failure',
    // Tracing takes half as long again, so only the retry is traced, unless asked for.
    trace: process.env.GATEWAY_TRACE ? 'on' : 'on-first-retry',
    launchOptions: launch,
  },
  projects: [
    // A gateway is set up only once, and so is a cluster. A retry needs new gateways.
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
