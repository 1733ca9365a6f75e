import { useTranslation } from 'react-i18next'
import { serviceGroups } from '../../api/resources'
import type { Fields } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import { paths } from '../../paths'
import { portsOf, useBook } from './book'
import { GroupList } from './GroupList'

export default function ServiceGroups() {
  return (
    <GroupList
      resource={serviceGroups}
      text="serviceGroup"
      book={useBook()}
      rowLink={(row) => paths.serviceGroup(row.id)}
      createLink={paths.serviceGroupNew}
    />
  )
}

function useForm() {
  const { services } = useBook().lists
  const fields: Fields<'firewall.service-group'> = [
    { name: 'name', type: 'text' },
    {
      name: 'members',
      type: 'members',
      choices: services.map((one) => ({ value: one.id, label: `${one.name} · ${portsOf(one)}` })),
    },
    { name: 'description', type: 'text' },
  ]
  return { resource: serviceGroups, text: 'firewall:serviceGroup', list: paths.serviceGroups, fields }
}

export function Create() {
  return <CreateDrawer {...useForm()} />
}

export function Edit() {
  const { t } = useTranslation('firewall')
  return (
    <EditDrawer
      {...useForm()}
      name={(row) => row.name}
      keep={(row) => (row.builtin ? t('builtinStays') : undefined)}
      fixed={(row) => (row.builtin ? ['name', 'members'] : [])}
    />
  )
}
