import type { Data } from '../../api/resource'
import type { KindField, Values } from '../../kit/form/fields'
import { durationOf, secondsOf } from './duration'

type Settings = Data<'/ids/settings'>

const sources = ['ssh', 'haproxy', 'packet_filter', 'waf'] as const satisfies readonly (keyof Settings['sources'])[]

/** The form has a switch for each log, and durations in seconds. */
export const settingsShape = {
  read: (row: Values): Values => {
    const settings = row as unknown as Settings
    return { ...row, ...settings.sources, ban_duration: secondsOf(settings.ban_duration) }
  },
  write: ({ enabled, blocking, ban_duration, allow_list, ...rest }: Values): Values => ({
    enabled,
    blocking,
    ban_duration: ban_duration === null ? '' : durationOf(ban_duration as number),
    sources: Object.fromEntries(sources.map((name) => [name, rest[name]])),
    allow_list: (allow_list as Settings['allow_list']).filter(({ cidr, note }) => cidr || note),
  }),
}

type SettingsField = KindField<'ids.settings', (typeof sources)[number]>

export const settingsFields: SettingsField[] = [
  { name: 'enabled', type: 'switch' },
  { name: 'blocking', type: 'switch' },
  { name: 'ban_duration', type: 'span', required: true },
  ...sources.map(
    (name, index): SettingsField => ({
      name,
      type: 'switch',
      ...(index === 0 && { section: 'sources', covers: ['sources'] }),
    }),
  ),
  {
    name: 'allow_list',
    type: 'rows',
    section: 'allow',
    columns: [
      { name: 'cidr', type: 'mono', span: 3 },
      { name: 'note', type: 'text', span: 3 },
    ],
  },
]
