const storageKey = 'gateway.reloaded-for'

/**
 * After an upgrade, the hashed chunks of the old build are gone. A page of that build reloads once to get the new one.
 * The entry's hashed URL identifies the build, so each build reloads at most once, and a chunk that is really missing
 * ends in an error instead of a loop.
 */
export function mayReload(build: string, storage: Pick<Storage, 'getItem' | 'setItem'>, key = storageKey): boolean {
  try {
    if (storage.getItem(key) === build) return false
    storage.setItem(key, build)
    return true
  } catch {
    // Without storage, nothing would prevent a loop.
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
