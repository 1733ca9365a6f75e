import type { BackupTarget } from '../../api/types'
import type { KindField, Values } from '../../kit/form/fields'

/** The settings of each kind, as named in the API. */
const settings = {
  s3: ['endpoint', 'region', 'bucket', 'path_prefix', 'access_key', 'secret_key', 'https', 'ca_certificate'],
  sftp: ['host', 'port', 'username', 'password', 'private_key', 'remote_dir', 'host_key_fingerprint'],
} as const

type Kind = keyof typeof settings
type Setting = (typeof settings)[Kind][number]
type TargetField = KindField<'backup.remote', Setting | 'login'>

const mask = '***SET***'
const stored = (name: 'secret_key' | 'password' | 'private_key') => (row: Values) =>
  (row as Partial<BackupTarget>).settings?.[name] === mask

const of =
  (kind: Kind, extra: (values: Values) => boolean = () => true) =>
  (values: Values) =>
    values.kind === kind && extra(values)

const field = (
  kind: Kind,
  spec: TargetField & { name: Setting },
  extra?: (values: Values) => boolean,
): TargetField => ({
  ...spec,
  when: of(kind, extra),
  covers: [`settings.${spec.name}`],
})

/** The form has flat settings, and a choice of login method instead of showing two secrets. */
export const targetFields: TargetField[] = [
  { name: 'kind', type: 'segments', covers: ['settings'] },
  field('s3', { name: 'endpoint', type: 'mono', required: true }),
  field('s3', { name: 'bucket', type: 'mono', required: true }),
  field('s3', { name: 'path_prefix', type: 'mono' }),
  field('s3', { name: 'region', type: 'mono', required: true }),
  field('s3', { name: 'access_key', type: 'mono', required: true, section: 'access' }),
  field('s3', { name: 'secret_key', type: 'password', configured: stored('secret_key') }),
  field('s3', { name: 'https', type: 'switch' }),
  field('s3', { name: 'ca_certificate', type: 'pem' }, ({ https }) => Boolean(https)),
  field('sftp', { name: 'host', type: 'mono', required: true }),
  field('sftp', { name: 'port', type: 'number', required: true, min: 1, max: 65535 }),
  field('sftp', { name: 'remote_dir', type: 'mono' }),
  field('sftp', { name: 'username', type: 'mono', required: true, section: 'access' }),
  { name: 'login', type: 'segments', options: ['key', 'password'], when: of('sftp') },
  field(
    'sftp',
    { name: 'private_key', type: 'pem-key', configured: stored('private_key') },
    ({ login }) => login === 'key',
  ),
  field(
    'sftp',
    { name: 'password', type: 'password', configured: stored('password') },
    ({ login }) => login === 'password',
  ),
  field('sftp', { name: 'host_key_fingerprint', type: 'mono' }),
  { name: 'name', type: 'text', section: 'general' },
  { name: 'keep', type: 'number', required: true },
  { name: 'active', type: 'switch' },
  { name: 'allow_internal', type: 'switch' },
]

export const targetDefaults: Values = {
  kind: 's3',
  name: '',
  keep: 14,
  active: true,
  allow_internal: false,
  endpoint: '',
  region: 'us-east-1',
  bucket: '',
  path_prefix: '',
  access_key: '',
  secret_key: '',
  https: true,
  ca_certificate: '',
  host: '',
  port: 22,
  username: '',
  login: 'key',
  password: '',
  private_key: '',
  remote_dir: '',
  host_key_fingerprint: '',
}

export const targetShape = {
  read: (row: Values): Values => {
    // A new target already has the form's shape.
    const { settings: own, ...rest } = row as { settings?: Values }
    if (!own) return row
    const login = own.private_key === mask || own.password !== mask ? 'key' : 'password'
    return { ...targetDefaults, ...rest, ...own, login }
  },
  write: (values: Values): Values => {
    const { kind, name, keep, active, allow_internal } = values
    const names: readonly string[] = settings[kind as Kind]
    const own = Object.fromEntries(names.filter((one) => values[one] !== undefined).map((one) => [one, values[one]]))
    // Clear the other login method.
    if (kind === 'sftp') own[values.login === 'key' ? 'password' : 'private_key'] = ''
    if (kind === 's3' && !values.https) own.ca_certificate = ''
    return { kind, name, keep, active, allow_internal, settings: own }
  },
}
