import { admin, baseURL, expect, name, renewSession, setupToken, test } from './gateway'

// Sets up a gateway through the API, as the setup tests do in the browser: one run tests the setup, all others use
// this.
test('the API sets up a gateway', async ({ request }) => {
  const ask = async (method: string, path: string, data?: object) => {
    const answer = await request.fetch(`${baseURL}/api/v1${path}`, { method, data })
    expect(answer.ok(), await answer.text()).toBe(true)
    return (await answer.json()).data
  }
  await ask('POST', '/setup/complete', {
    admin_email: admin.email,
    admin_password: admin.password,
    fqdn: name,
    acme_enabled: false,
    setup_token: setupToken,
  })
  await ask('POST', '/auth/login', admin)
  const { networks } = await ask('GET', '/network/setup')
  await ask('POST', '/network/setup', {
    networks: networks.map((network: object) => ({ ...network, dhcp: false, dns: false, ntp: false })),
  })
  await renewSession()
})
