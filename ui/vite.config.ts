import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  plugins: [react()],
  build: {
    // dist/.gitkeep must survive, because the Go build embeds the folder: scripts/finish.mjs restores it.
    manifest: true,
    // An inlined asset would be a data: URL, which the content security policy allows for images alone.
    assetsInlineLimit: 0,
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
    restoreMocks: true,
  },
})
