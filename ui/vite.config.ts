import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'
import type { Reporter } from 'vitest/node'

// A test that only its second try saved is a defect all the same: it is named, with what it said the first time.
const flaky: Reporter = {
  onTestCaseResult(test) {
    if (test.diagnostic()?.flaky)
      console.log(
        `flaky: ${test.module.relativeModuleId}: ${test.fullName}\n${test.result().errors?.[0]?.message ?? ''}`,
      )
  },
}

export default defineConfig({
  plugins: [react()],
  build: {
    // dist/.gitkeep must survive, because the Go build embeds the folder: scripts/finish.mjs restores it.
    manifest: true,
    // An inlined asset would be a data: URL, which the content security policy allows for images alone.
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: {
        // Two large files instead of sixty small ones: what the login needs, and what every page of the
        // console needs besides. Each group takes along what its modules import.
        codeSplitting: {
          groups: [
            { name: 'base', test: /src\/(main|door\/Door)\.tsx$/, priority: 2 },
            {
              name: 'console',
              test: /src\/(app|kit\/\w+)\/(?!Palette|Plot|ChangePreview|SortableTable)\w+\.tsx?$/,
              priority: 1,
            },
          ],
        },
      },
    },
  },
  server: {
    proxy: {
      '/api': { target: process.env.GATEWAY_URL ?? 'https://127.0.0.1:3443', secure: false, ws: true },
    },
  },
  test: {
    environment: 'happy-dom',
    include: ['src/**/*.test.{ts,tsx}'],
    setupFiles: ['src/test-setup.ts'],
    reporters: ['minimal', flaky],
    retry: 1,
    testTimeout: 60_000,
    // One page of a browser serves all files: one for each would take ten times longer. So a test takes along what it changed.
    isolate: false,
    restoreMocks: true,
    unstubGlobals: true,
  },
})
