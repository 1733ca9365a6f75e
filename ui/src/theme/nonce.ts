/**
 * The content security policy only allows a <style> element with the nonce of this response, which the server writes
 * into index.html. The component library gets it from here; the scroll lock of dialogs reads the global that bundlers
 * use for it.
 */
export const styleNonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? ''

Object.assign(globalThis, { __webpack_nonce__: styleNonce })
