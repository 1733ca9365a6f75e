import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { natRules } from '../../api/resources'
import type { NatRule } from '../../api/types'
import { ownConnection } from '../../kit/change/own-connection'
import type { Fields, Values } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import { useDraft } from '../../kit/form/useDraft'
import { paths } from '../../paths'
import { useBook } from './book'
import { hasPorts, isKind, natShape } from './nat-text'
import { oldNote } from './rule-form'
import { labelsOf } from './rule-text'

export const natKinds = ['dnat', 'snat', 'masquerade'] as const
const protocols = ['any', 'tcp', 'udp', 'tcp+udp'] as const

/** The default zones: a port forward takes traffic from the internet, the other kinds rewrite traffic to it. */
const zonesFor = ({ kind }: Values): Values =>
  kind === 'dnat' ? { in_zone: 'wan', out_zone: 'any' } : { in_zone: 'any', out_zone: 'wan' }

const blank: Values = { kind: 'dnat', ...zonesFor({ kind: 'dnat' }), protocol: 'tcp' }

function useNatForm() {
  const { t } = useTranslation('firewall')
  const { zones } = useBook().lists
  const { data = [] } = useQuery({ queryKey: [natRules.kind], queryFn: natRules.list })
  const choices = [{ value: 'any', label: t('any') }, ...zones.map(({ name }) => ({ value: name, label: name }))]
  const target = (values: Values) => hasPorts(values) && isKind('dnat', 'snat')(values)
  const fields: Fields<'firewall.nat-rule'> = [
    { name: 'name', type: 'text' },
    { name: 'kind', type: 'choice', options: natKinds },
    { name: 'in_zone', type: 'select', choices, section: 'traffic' },
    { name: 'out_zone', type: 'select', choices, when: isKind('snat', 'masquerade') },
    { name: 'src_cidr', type: 'mono' },
    { name: 'dst_cidr', type: 'mono', help: ({ kind }) => t(`nat.dst_cidr.${kind === 'dnat' ? 'own' : 'any'}`) },
    { name: 'protocol', type: 'segments', options: protocols },
    { name: 'dst_port', type: 'number', when: hasPorts },
    { name: 'dst_port_end', type: 'number', when: (values) => hasPorts(values) && Boolean(values.dst_port) },
    { name: 'target_address', type: 'mono', required: true, section: 'target', when: isKind('dnat', 'snat') },
    { name: 'target_port', type: 'number', when: target },
    { name: 'target_port_end', type: 'number', when: (values) => target(values) && Boolean(values.target_port) },
    { name: 'takes_management_ports', type: 'switch', when: isKind('dnat') },
    { name: 'enabled', type: 'switch', section: 'about' },
    { name: 'comment', type: 'text' },
    { name: 'labels', type: 'labels', choices: labelsOf(data) },
    oldNote,
  ]
  return { resource: natRules, text: 'firewall:nat', list: paths.nat, fields, shape: natShape, guard: ownConnection }
}

/** The form for a new NAT rule. A copied rule can fill it in. */
export function Create() {
  const form = useNatForm()
  const draft = useDraft<NatRule>()
  const write = (values: Values) => ({ ...natShape.write(values), ...(draft && { priority: draft.priority }) })
  return (
    <CreateDrawer
      {...form}
      defaults={{ ...blank, ...draft }}
      shape={{ ...natShape, write }}
      follow={draft?.kind ? undefined : zonesFor}
    />
  )
}

export function Edit() {
  return <EditDrawer {...useNatForm()} name={(row) => row.name} />
}
