// Finishes a build: restores dist/.gitkeep, moves the manifest for the size check out of the served files, and writes
// .gz and .br files next to every asset, so that the server compresses nothing at run time.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

const dist = new URL('../dist', import.meta.url).pathname
const manifestPath = new URL('../node_modules/.cache/gateway/manifest.json', import.meta.url).pathname

writeFileSync(join(dist, '.gitkeep'), '')
mkdirSync(dirname(manifestPath), { recursive: true })
renameSync(join(dist, '.vite/manifest.json'), manifestPath)
rmdirSync(join(dist, '.vite'))

const assets = join(dist, 'assets')
for (const name of readdirSync(assets)) {
  if (!/\.(js|css|svg)$/.test(name)) continue
  const raw = readFileSync(join(assets, name))
  writeFileSync(join(assets, `${name}.gz`), gzipSync(raw, { level: 9 }))
  writeFileSync(
    join(assets, `${name}.br`),
    brotliCompressSync(raw, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: raw.length } }),
  )
}
