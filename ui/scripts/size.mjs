// Fails if a page needs more JavaScript than its budget. Counts the entry, the lazy chunks that a page loads and
// everything they import, as served: gzipped.
import { accessSync, readFileSync, statSync } from 'node:fs'

const manifest = JSON.parse(
  readFileSync(new URL('../node_modules/.cache/gateway/manifest.json', import.meta.url), 'utf8'),
)
const gz = (file) => statSync(new URL(`../dist/${file}.gz`, import.meta.url)).size

function closure(keys, seen = new Set()) {
  for (const key of keys) {
    if (seen.has(key)) continue
    // A module without a file of its own is in a chunk that is counted anyway.
    if (!manifest[key]) {
      accessSync(new URL(`../${key}`, import.meta.url))
      continue
    }
    seen.add(key)
    closure(manifest[key].imports ?? [], seen)
  }
  return seen
}

const pages = [
  { name: 'login', chunks: ['index.html', 'src/door/Door.tsx'], budget: 150 },
  {
    name: 'overview',
    chunks: ['index.html', 'src/app/App.tsx', 'src/areas/overview/OverviewPage.tsx', 'src/kit/chart/Plot.tsx'],
    budget: 350,
  },
]

for (const { name, chunks, budget } of pages) {
  const files = [...closure(chunks)].map((key) => manifest[key].file).filter((file) => file.endsWith('.js'))
  const kib = files.reduce((sum, file) => sum + gz(file), 0) / 1024
  console.log(`${name}: ${kib.toFixed(1)} KiB gzip of JavaScript in ${files.length} files, budget ${budget}`)
  if (kib > budget) process.exitCode = 1
}
