import { describe, expect, it } from 'vitest'
import { readConf } from './conf'

const provider = `# from the provider
[Interface]
PrivateKey = yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=
Address = 10.64.0.7, fc00:bbbb::7/128
DNS = 10.64.0.1
MTU=1380
PostUp = touch /tmp/x

[Peer]
publickey = xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=   # theirs
PresharedKey = FpCyhws9cxwWoV4xELtfJvjJN+zQVRPISllRWgeopVE=
AllowedIPs = 0.0.0.0/0
AllowedIPs = ::/0
Endpoint = 198.51.100.9:51820
PersistentKeepalive = 25
`

describe("a provider's configuration", () => {
  it('becomes the fields of a client', () => {
    expect(readConf(provider)).toEqual({
      values: {
        mode: 'client',
        address_cidr: '10.64.0.7/32,fc00:bbbb::7/128',
        listen_port: 0,
        mtu: 1380,
        upstream_public_key: 'xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=',
        upstream_endpoint: '198.51.100.9:51820',
        upstream_allowed_ips: '0.0.0.0/0,::/0',
        upstream_keepalive: 25,
      },
      secrets: {
        private_key: 'yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=',
        upstream_preshared_key: 'FpCyhws9cxwWoV4xELtfJvjJN+zQVRPISllRWgeopVE=',
      },
      left: ['DNS', 'PostUp'],
    })
  })

  it('never lets a command through', () => {
    expect(JSON.stringify(readConf(provider))).not.toContain('touch')
  })

  it('has no secret if there is none', () => {
    const bare = provider.replace(/P(rivate|reshared)Key = .*\n/g, '').replaceAll('\n', '\r\n')
    expect(readConf(bare)).toMatchObject({ secrets: {}, values: { mtu: 1380 } })
  })

  it.each([
    ['noInterface', 'hello'],
    ['noInterface', '[Peer]\nPublicKey = a\nEndpoint = b:1'],
    ['noPeer', '[Interface]\nPrivateKey = a'],
    ['manyPeers', `${provider}\n[Peer]\nPublicKey = a`],
    ['noEndpoint', provider.replace(/Endpoint.*/, '')],
  ])('is refused: %s', (problem, text) => {
    expect(readConf(text)).toBe(problem)
  })
})
