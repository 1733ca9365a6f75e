/** The header by which the owner of a machine that is not set up yet proves it. On the machine itself none is needed. */
export const headerOf = (token: string) => (token ? { 'Gateway-Setup-Token': token } : {})

const place = 'gateway-setup-restore'

/** Keeps in this tab how the owner proves it while a restore is followed, so that a reload of the page comes back to it. */
export const keepToken = (token: string) => sessionStorage.setItem(place, token)
/** Null when no restore is followed in this tab. */
export const keptToken = () => sessionStorage.getItem(place)
export const dropToken = () => sessionStorage.removeItem(place)
