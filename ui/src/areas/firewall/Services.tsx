import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { services } from '../../api/resources'
import type { Fields, Values } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import { ResourceList } from '../../kit/list/ResourceList'
import { paths } from '../../paths'
import { portsOf, useUsage } from './book'
import { Builtin, UsedBy } from './marks'

const protocols = ['tcp', 'udp', 'tcp+udp', 'icmp', 'icmpv6', 'any'] as const
const ported = ({ protocol }: Values) => ['tcp', 'udp', 'tcp+udp'].includes(String(protocol))
const fields: Fields<'firewall.service'> = [
  { name: 'name', type: 'text' },
  { name: 'protocol', type: 'segments', options: protocols },
  { name: 'port_start', type: 'number', when: ported },
  { name: 'port_end', type: 'number', when: (values) => ported(values) && !!values.port_start },
  { name: 'description', type: 'text' },
]
const form = {
  resource: services,
  text: 'firewall:service',
  list: paths.services,
  fields,
  shape: {
    read: (row: Values) => row,
    write: (values: Values) => (ported(values) ? values : { ...values, port_start: null, port_end: null }),
  },
}

export default function Services() {
  const { t } = useTranslation('firewall')
  const usage = useUsage()
  return (
    <>
      <ResourceList
        resource={services}
        text="firewall:service"
        columns={[
          {
            key: 'name',
            header: t('service.name.label'),
            cell: (row) => (
              <>
                {row.name} <Builtin builtin={row.builtin} />
              </>
            ),
            sortBy: (row) => row.name,
          },
          {
            key: 'ports',
            header: t('service.ports'),
            cell: (row) => <span className="mono">{portsOf(row)}</span>,
            sortBy: (row) => row.port_start ?? 0,
          },
          {
            key: 'description',
            header: t('service.description.label'),
            width: 'minmax(0, 1.4fr)',
            cell: (row) => row.description || '–',
          },
          {
            key: 'used',
            header: t('usedBy'),
            width: '70px',
            align: 'right',
            cell: (row) => <UsedBy users={usage.get(row.id)} name={row.name} />,
            sortBy: (row) => usage.get(row.id)?.length ?? 0,
          },
        ]}
        filters={[
          {
            key: 'own',
            label: t('service.origin'),
            options: ['own', 'builtin'].map((value) => ({ value, label: t(`service.origins.${value}`) })),
            of: (row) => (row.builtin ? 'builtin' : 'own'),
          },
        ]}
        searchText={(row) => `${row.name} ${portsOf(row)} ${row.description} ${row.id}`}
        rowLink={(row) => paths.service(row.id)}
        createLink={paths.serviceNew}
      />
      <Outlet />
    </>
  )
}

export function Create() {
  return <CreateDrawer {...form} defaults={{ protocol: 'tcp' }} />
}

export function Edit() {
  const { t } = useTranslation('firewall')
  return (
    <EditDrawer
      {...form}
      name={(row) => row.name}
      keep={(row) => (row.builtin ? t('builtinStays') : undefined)}
      fixed={(row) => (row.builtin ? ['name', 'protocol', 'port_start', 'port_end'] : [])}
    />
  )
}
