import { describe, expect, it } from 'vitest'
import { channelShape, followPort } from './channel-form'

const mail = {
  name: 'Ops',
  kind: 'email',
  target: 'ops@example.net',
  smtp_host: 'mail.example.net',
  smtp_port: 587,
  username: 'gateway',
  from: 'gateway@example.net',
  security: 'starttls',
  headers: [],
  min_severity: 'info',
  allow_internal: false,
  active: true,
}

describe('the form of a channel', () => {
  it('has one choice for the encryption', () => {
    const settings = (security: string, smtp_port: number) =>
      channelShape.write({ ...mail, security, smtp_port }).settings as Record<string, unknown>
    expect(settings('starttls', 587)).toMatchObject({ use_tls: true, implicit_tls: false })
    expect(settings('tls', 465)).toMatchObject({ use_tls: true, implicit_tls: false })
    expect(settings('tls', 2465)).toMatchObject({ use_tls: true, implicit_tls: true })
    expect(settings('none', 25)).toMatchObject({ use_tls: false, implicit_tls: false })
    for (const [security, port] of [
      ['starttls', 587],
      ['tls', 465],
      ['tls', 2465],
      ['none', 25],
    ] as const) {
      const body = channelShape.write({ ...mail, security, smtp_port: port })
      expect(channelShape.read(body).security).toBe(security)
    }
  })

  it('keeps the stored password when the field is empty, and clears it without a user', () => {
    expect(channelShape.write(mail).settings).not.toHaveProperty('password')
    expect(channelShape.write({ ...mail, password: 'new' }).settings).toMatchObject({ password: 'new' })
    expect(channelShape.write({ ...mail, username: '' }).settings).toMatchObject({ password: '' })
  })

  it('sends the mask for unchanged headers, and nothing about email', () => {
    const read = channelShape.read({
      kind: 'webhook',
      target: 'https://hooks.example.net',
      settings: { headers: { Authorization: '***SET***' } },
    })
    expect(read.headers).toEqual([{ name: 'Authorization', value: '***SET***' }])
    const body = channelShape.write({ ...read, headers: [...(read.headers as []), { name: '', value: '' }] })
    expect(body.settings).toEqual({
      smtp_host: '',
      smtp_port: 0,
      username: '',
      password: '',
      from: '',
      use_tls: false,
      implicit_tls: false,
      headers: { Authorization: '***SET***' },
    })
  })

  it('changes the port with the encryption', () => {
    expect(followPort({ security: 'tls' })).toEqual({ smtp_port: 465 })
    expect(followPort({ security: 'starttls' })).toEqual({ smtp_port: 587 })
    expect(followPort({ security: 'none' })).toEqual({ smtp_port: 25 })
  })
})
