/** Milliseconds after which a restore takes longer than usual. */
export const usual = 3 * 60_000
