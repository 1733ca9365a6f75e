import type { TFunction } from 'i18next'
import type { Rule } from '../../api/types'
import type { Creation } from '../../kit/form/Choice'
import type { FieldSpec, Fields, Values } from '../../kit/form/fields'
import { type Book, portsOf } from './book'

export const actions = ['accept', 'drop', 'reject'] as const
const selectors = ['any', 'object', 'group', 'cidr'] as const

/** Initial values for a new rule, including its priority. */
export type Draft = Partial<Omit<Rule, 'id' | 'created_at' | 'updated_at'>>

/**
 * The initial values of the create form. The operator must choose zones and service: a rule for everything is never the
 * default.
 */
export const startOf = (draft: Draft | undefined): Values => ({
  src_zone: null,
  dst_zone: null,
  action: 'accept',
  ...draft,
})

/** The form has one field for the service; the API has one per kind. Fields of other kinds must be empty. */
export const ruleShape = {
  read: (rule: Values): Values => ({
    ...rule,
    // A stored rule without a service matches all of them; in a new one nothing is chosen yet.
    service: rule.service_object_id ?? rule.service_group_id ?? (rule.service_object_id === null ? 'any' : null),
  }),
  write:
    (book: Book) =>
    (values: Values): Values => {
      const { service, ...body } = values
      for (const side of ['src', 'dst']) {
        const kind = body[`${side}_kind`]
        if (kind !== 'object') body[`${side}_object_id`] = null
        if (kind !== 'group') body[`${side}_group_id`] = null
        if (kind !== 'cidr') body[`${side}_cidr`] = null
      }
      const isGroup = book.lists.serviceGroups.some(({ id }) => id === service)
      body.service_object_id = service === 'any' || isGroup ? null : service
      body.service_group_id = isGroup ? service : null
      return body
    },
}

const port = (text: string | undefined) => (text && Number(text) >= 1 && Number(text) <= 65_535 ? Number(text) : null)

/** The service for an input such as tcp/8443, 8443 or udp/6000-6100; undefined for anything else. */
export function typedService(text: string) {
  const [, protocol = 'tcp', first, last] = /^\s*(?:(tcp|udp)[/ ])?(\d{1,5})(?:-(\d{1,5}))?\s*$/i.exec(text) ?? []
  const port_start = port(first)
  const port_end = port(last)
  if (port_start === null || (last && (port_end ?? 0) < port_start)) return undefined
  const name = `${protocol.toLowerCase()}/${port_start}${port_end ? `-${port_end}` : ''}`
  return { name, protocol: protocol.toLowerCase(), port_start, port_end }
}

export function ruleFields(
  book: Book,
  labels: string[],
  t: TFunction,
  newService?: Creation,
): Fields<'firewall.rule', 'service'> {
  const { zones, addresses, addressGroups, services, serviceGroups } = book.lists
  const zoneChoices = [
    { value: 'any', label: t('firewall:any') },
    ...zones.map(({ name }) => ({ value: name, label: name })),
  ]
  const self = { value: 'self', label: t('firewall:self') }
  const objects = addresses.map(({ id, name, value }) => ({ value: id, label: `${name} · ${value}` }))
  const groups = addressGroups.map(({ id, name }) => ({ value: id, label: name }))
  const side = (prefix: 'src' | 'dst', choices: typeof zoneChoices): Fields<'firewall.rule', 'service'> => [
    { name: `${prefix}_zone`, type: 'select', choices, required: true, section: prefix },
    { name: `${prefix}_kind`, type: 'segments', options: selectors },
    { name: `${prefix}_object_id`, type: 'select', choices: objects, required: true, when: is(prefix, 'object') },
    { name: `${prefix}_group_id`, type: 'select', choices: groups, required: true, when: is(prefix, 'group') },
    { name: `${prefix}_cidr`, type: 'mono', required: true, when: is(prefix, 'cidr') },
  ]
  return [
    { name: 'name', type: 'text' },
    ...side('src', zoneChoices),
    ...side('dst', [...zoneChoices, self]),
    {
      name: 'service',
      type: 'select',
      required: true,
      section: 'what',
      covers: ['service_object_id', 'service_group_id'],
      create: newService,
      choices: [
        { value: 'any', label: t('firewall:anyService') },
        { group: t('firewall:groups'), items: serviceGroups.map(({ id, name }) => ({ value: id, label: name })) },
        {
          group: t('firewall:services'),
          items: services.map((one) => ({ value: one.id, label: `${one.name} · ${portsOf(one)}` })),
        },
      ],
    },
    { name: 'action', type: 'segments', options: actions },
    { name: 'log', type: 'switch' },
    { name: 'enabled', type: 'switch' },
    { name: 'comment', type: 'text', section: 'about' },
    { name: 'labels', type: 'labels', choices: labels },
    oldNote,
  ]
}

/** A second remark that rules and NAT rules may have in the API; shown only if there is one. */
export const oldNote: FieldSpec<'note'> = { name: 'note', type: 'note', when: (_, row) => Boolean(row.note) }

const is = (prefix: string, kind: string) => (values: Values) => values[`${prefix}_kind`] === kind
