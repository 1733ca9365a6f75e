import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'
import type { Reporter } from 'vitest/node'

// A test that passes only on retry is still a defect, so report it with its first error.
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
    // For scripts/size.mjs. The build empties dist, so scripts/finish.mjs moves the manifest away and restores
    // dist/.gitkeep.
    manifest: true,
    // An inlined asset would be a data: URL, which the content security policy only allows for images.
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: {
        // Two large files instead of sixty small ones: what the login needs, and what every page of the console needs
        // in addition. Each group includes the imports of its modules.
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
    // All test files share one browser environment: one each would take ten times longer. So each test must undo its
    // changes.
    isolate: false,
    restoreMocks: true,
    unstubGlobals: true,
  },
})
