/** Whether this browser can hold or ask for a passkey, in the JSON form that the gateway speaks. */
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

/** Why the browser gave none, as the name of a text; null when it was not the browser that refused. */
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
