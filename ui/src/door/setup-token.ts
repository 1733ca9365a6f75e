/** The header by which the owner of a machine that is not set up yet proves it. On the machine itself none is needed. */
export const headerOf = (token: string) => (token ? { 'Gateway-Setup-Token': token } : {})
