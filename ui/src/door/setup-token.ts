/** The header that proves ownership of a machine that is not set up. On the machine itself it is not needed. */
export const headerOf = (token: string) => (token ? { 'Gateway-Setup-Token': token } : {})

const place = 'gateway-setup-restore'

/** Keeps the token in this tab during a restore, so that a reload of the page can continue. */
export const keepToken = (token: string) => sessionStorage.setItem(place, token)
/** Null unless a restore is running in this tab. */
export const keptToken = () => sessionStorage.getItem(place)
export const dropToken = () => sessionStorage.removeItem(place)
