import type { Data } from '../../api/resource'
import type { Fields, KindField, Values } from '../../kit/form/fields'

type Channel = Data<'/alerts/{id}'>
type Settings = Channel['settings']

const implicitPort = 465

/** The encryption to a mail server as one of the form's choices. */
function securityOf({ use_tls: tls, implicit_tls: implicit, smtp_port: port }: Partial<Settings>): string {
  if (!tls) return 'none'
  return implicit || port === implicitPort ? 'tls' : 'starttls'
}

interface Header {
  name: string
  value: string
}

/** The form is flat and has one choice for the encryption; the API has settings by kind. */
export const channelShape = {
  read: (row: Values): Values => {
    const { settings: given, ...rest } = row as Partial<Channel>
    const settings: Partial<Settings> = given ?? {}
    const { smtp_host = '', smtp_port, username = '', from = '', headers = {} } = settings
    return {
      ...rest,
      smtp_host,
      smtp_port: smtp_port || 587,
      username,
      from,
      security: rest.kind === 'email' || settings.smtp_host ? securityOf(settings) : 'starttls',
      headers: Object.entries(headers as Record<string, string>).map(([name, value]): Header => ({ name, value })),
    }
  },
  write: (values: Values): Values => {
    const { smtp_host, smtp_port, username, password, from, security, headers, ...rest } = values
    if (rest.kind === 'webhook') {
      const named = ((headers ?? []) as Header[]).filter(({ name, value }) => name || value)
      return {
        ...rest,
        settings: {
          smtp_host: '',
          smtp_port: 0,
          username: '',
          password: '',
          from: '',
          use_tls: false,
          implicit_tls: false,
          headers: Object.fromEntries(named.map(({ name, value }) => [name, value])),
        },
      }
    }
    return {
      ...rest,
      settings: {
        smtp_host,
        smtp_port,
        username,
        from,
        use_tls: security !== 'none',
        implicit_tls: security === 'tls' && smtp_port !== implicitPort,
        headers: {},
        // Without a user there is no password; an empty field keeps the stored one.
        ...(username ? Boolean(password) && { password } : { password: '' }),
      },
    }
  },
}

const isMail = ({ kind }: Values) => kind === 'email'
/** Fields that are flat in the form, and in the API part of an email channel's settings. */
type Own = 'smtp_host' | 'smtp_port' | 'username' | 'password' | 'from'
const mail = (spec: KindField<'alert.channel', Own> & { name: Own }): KindField<'alert.channel', Own> => ({
  ...spec,
  when: isMail,
  covers: [`settings.${spec.name}`],
})

/** `t` translates the texts that depend on other fields. */
export const channelFields = (t: (key: string) => string): Fields<'alert.channel', Own | 'security' | 'headers'> => [
  { name: 'kind', type: 'segments', covers: ['settings'] },
  { name: 'name', type: 'text' },
  {
    name: 'target',
    type: 'mono',
    help: (values) => t(isMail(values) ? 'channel.target.emailHelp' : 'channel.target.webhookHelp'),
    placeholder: (values) => (isMail(values) ? 'ops@example.net' : 'https://hooks.example.net/alerts'),
  },
  {
    name: 'headers',
    type: 'rows',
    when: (values) => !isMail(values),
    covers: ['settings.headers'],
    columns: [
      { name: 'name', type: 'mono', span: 3 },
      { name: 'value', type: 'mono', span: 3 },
    ],
  },
  mail({ name: 'smtp_host', type: 'mono', section: 'smtp' }),
  {
    name: 'security',
    type: 'segments',
    options: ['starttls', 'tls', 'none'],
    when: isMail,
    covers: ['settings.use_tls', 'settings.implicit_tls'],
    help: ({ security }) => t(security === 'none' ? 'channel.security.noneHelp' : 'channel.security.someHelp'),
  },
  mail({ name: 'smtp_port', type: 'number', min: 1, max: 65_535 }),
  mail({ name: 'username', type: 'text' }),
  mail({ name: 'password', type: 'password' }),
  mail({ name: 'from', type: 'mono' }),
  {
    name: 'min_severity',
    type: 'segments',
    section: 'rules',
  },
  { name: 'allow_internal', type: 'switch' },
  { name: 'active', type: 'switch' },
]

/** The usual port of an encryption, unless the user has chosen another. */
export const followPort = ({ security }: Values): Values => ({
  smtp_port: security === 'tls' ? implicitPort : security === 'none' ? 25 : 587,
})
