import { expect, it } from 'vitest'
import { targetDefaults, targetFields, targetShape } from './target-form'

const shown = (values: Record<string, unknown>) =>
  targetFields.filter(({ when }) => when?.(values, targetDefaults) ?? true).map(({ name }) => name)

it('sends only the settings of the kind', () => {
  const s3 = targetShape.write({ ...targetDefaults, endpoint: 's3.example.net', secret_key: 'k', password: 'other' })
  expect(s3.settings).toEqual({
    endpoint: 's3.example.net',
    region: 'us-east-1',
    bucket: '',
    path_prefix: '',
    access_key: '',
    secret_key: 'k',
    https: true,
    ca_certificate: '',
  })
  expect(Object.keys(s3)).toEqual(['kind', 'name', 'keep', 'active', 'allow_internal', 'settings'])
})

it('keeps a secret that is not typed again, and clears the other login method', () => {
  const row = {
    kind: 'sftp',
    keep: 3,
    settings: { host: 'h', port: 22, username: 'u', password: '***SET***', private_key: '', remote_dir: '' },
  }
  const values = targetShape.read(row)
  expect(values.login).toBe('password')
  expect(values.keep).toBe(3)
  const { password: _, ...untouched } = values
  expect(targetShape.write(untouched).settings).not.toHaveProperty('password')
  expect(targetShape.write(untouched).settings).toHaveProperty('private_key', '')
  const { private_key: __, ...other }: Record<string, unknown> = { ...untouched, login: 'key' }
  expect(targetShape.write(other).settings).toHaveProperty('password', '')
  expect(targetShape.write(other).settings).not.toHaveProperty('private_key')
})

it('shows the fields of the kind and the login method', () => {
  expect(shown({ ...targetDefaults, https: false })).not.toContain('ca_certificate')
  expect(shown(targetDefaults)).not.toContain('host')
  const sftp = shown({ ...targetDefaults, kind: 'sftp', login: 'password' })
  expect(sftp).toContain('password')
  expect(sftp).not.toContain('private_key')
  expect(sftp).not.toContain('bucket')
})

it('tells from the stored row whether there is a secret', () => {
  const key = targetFields.find(({ name }) => name === 'secret_key')?.configured as (row: object) => boolean
  expect(key({ settings: { secret_key: '***SET***' } })).toBe(true)
  expect(key({ settings: { secret_key: '' } })).toBe(false)
  expect(key(targetDefaults)).toBe(false)
})
