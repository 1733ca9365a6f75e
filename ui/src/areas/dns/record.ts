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

/**
 * The full name of a record. An empty name or @ is the zone itself; a name that ends with a dot or the zone is used as
 * it is.
 */
export function fullName(typed: string, zone: string): string {
  const name = typed.trim()
  const root = bare(zone)
  if (name === '' || name === '@') return root
  if (name.endsWith('.') || bare(name) === root || bare(name).endsWith(`.${root}`)) return bare(name)
  return `${bare(name)}.${root}`
}

/** Splits a full name into the record's own part, and the zone that all its records share. */
export function splitName(record: Pick<DnsRecord, 'name'>, zone: string): [own: string, rest: string] {
  const full = fullName(record.name, zone)
  const rest = `.${bare(zone)}`
  return full.endsWith(rest) ? [full.slice(0, -rest.length), rest] : [full, '']
}

const numbers = { MX: ['priority'], SRV: ['priority', 'weight', 'port'] } as Partial<
  Record<string, ('priority' | 'weight' | 'port')[]>
>

/** Whether records of this type have the number. */
export const hasNumber =
  (field: 'priority' | 'weight' | 'port') =>
  ({ type }: Values) =>
    numbers[String(type)]?.includes(field) ?? false

/** The value as in a zone file: MX and SRV have their numbers first. */
export function answerOf(record: Pick<DnsRecord, 'type' | 'value' | 'priority' | 'weight' | 'port'>): string {
  return [
    ...(numbers[record.type] ?? []).map((field) => record[field]).filter((one) => one !== null),
    record.value,
  ].join(' ')
}

/** Clear numbers that the type does not have. */
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
