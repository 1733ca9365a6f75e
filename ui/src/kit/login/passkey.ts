/** Whether this browser supports passkeys in the gateway's JSON format. */
export function passkeysHere(): boolean {
  return typeof PublicKeyCredential === 'function' && 'parseRequestOptionsFromJSON' in PublicKeyCredential
}

export async function makePasskey(options: unknown) {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options as PublicKeyCredentialCreationOptionsJSON)
  return json(await navigator.credentials.create({ publicKey }))
}

export async function askForPasskey(options: unknown) {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options as PublicKeyCredentialRequestOptionsJSON)
  return json(await navigator.credentials.get({ publicKey }))
}

const json = (credential: Credential | null) => (credential as PublicKeyCredential).toJSON()

/** Why the browser returned no passkey, as a text key; null if the error is not the browser's. */
export function passkeyProblem(cause: unknown): 'cancelled' | 'known' | 'insecure' | 'unfit' | null {
  if (!(cause instanceof DOMException)) return null
  switch (cause.name) {
    case 'NotAllowedError':
    case 'AbortError':
      return 'cancelled'
    case 'InvalidStateError':
      return 'known'
    case 'SecurityError':
      return 'insecure'
    default:
      return 'unfit'
  }
}
