/**
 * The content security policy allows a <style> element only with the nonce of this response. The server
 * writes it into index.html; the component library asks here, the scroll lock of dialogs looks at the
 * global that bundlers use for it.
 */
export const styleNonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? ''

Object.assign(globalThis, { __webpack_nonce__: styleNonce })
