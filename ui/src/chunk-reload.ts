const storageKey = 'gateway.reloaded-for'

/**
 * After an upgrade the hashed chunks of the old build are gone. A page of that build reloads once to
 * become the new one. The entry's own hashed address names the build, so a build reloads at most once
 * and a chunk that is really missing ends in an error instead of a loop.
 */
export function mayReload(build: string, storage: Pick<Storage, 'getItem' | 'setItem'>, key = storageKey): boolean {
  try {
    if (storage.getItem(key) === build) return false
    storage.setItem(key, build)
    return true
  } catch {
    // Without storage there is no guard against a loop.
    return false
  }
}

export function reloadOnChunkFailure(build = import.meta.url, reload = () => location.reload()) {
  window.addEventListener('vite:preloadError', (event) => {
    if (!mayReload(build, sessionStorage)) return
    event.preventDefault()
    reload()
  })
}
