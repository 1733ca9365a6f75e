import type { DnsRecord } from '../../api/types'
import type { Values } from '../../kit/form/fields'

export const recordTypes = [
  'A',
  'AAAA',
  'CNAME',
  'TXT',
  'MX',
  'SRV',
  'NS',
  'PTR',
  'CAA',
] as const satisfies DnsRecord['type'][]

const bare = (name: string) => name.toLowerCase().replace(/\.$/, '')

/** The name that a record has in the tree of names: nothing or @ is the zone, a dot at the end or the zone itself means as it is. */
export function fullName(typed: string, zone: string): string {
  const name = typed.trim()
  const root = bare(zone)
  if (name === '' || name === '@') return root
  if (name.endsWith('.') || bare(name) === root || bare(name).endsWith(`.${root}`)) return bare(name)
  return `${bare(name)}.${root}`
}

/** The part of a full name that is the record's own, and the part that every record of the zone has. */
export function splitName(record: Pick<DnsRecord, 'name'>, zone: string): [own: string, rest: string] {
  const full = fullName(record.name, zone)
  const rest = `.${bare(zone)}`
  return full.endsWith(rest) ? [full.slice(0, -rest.length), rest] : [full, '']
}

const numbers = { MX: ['priority'], SRV: ['priority', 'weight', 'port'] } as Partial<
  Record<string, ('priority' | 'weight' | 'port')[]>
>

/** Whether a record of this type has the number. */
export const hasNumber =
  (field: 'priority' | 'weight' | 'port') =>
  ({ type }: Values) =>
    numbers[String(type)]?.includes(field) ?? false

/** The answer as it is written in a zone file: the numbers of MX and SRV before the value. */
export function answerOf(record: Pick<DnsRecord, 'type' | 'value' | 'priority' | 'weight' | 'port'>): string {
  return [
    ...(numbers[record.type] ?? []).map((field) => record[field]).filter((one) => one !== null),
    record.value,
  ].join(' ')
}

/** Numbers that the type does not have are not kept. */
export const recordShape = (zone: string) => ({
  read: (row: Values): Values => row,
  write: (values: Values): Values => ({
    ...values,
    zone_id: zone,
    ...Object.fromEntries(
      (['priority', 'weight', 'port'] as const)
        .filter((field) => !hasNumber(field)(values))
        .map((field) => [field, null]),
    ),
  }),
})
