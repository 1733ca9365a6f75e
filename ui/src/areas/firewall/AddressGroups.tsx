import { addressGroups } from '../../api/resources'
import type { Fields } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import { paths } from '../../paths'
import { useBook } from './book'
import { GroupList } from './GroupList'

export default function AddressGroups() {
  return (
    <GroupList
      resource={addressGroups}
      text="addressGroup"
      book={useBook()}
      rowLink={(row) => paths.addressGroup(row.id)}
      createLink={paths.addressGroupNew}
    />
  )
}

function useForm() {
  const { addresses } = useBook().lists
  const fields: Fields<'firewall.address-group'> = [
    { name: 'name', type: 'text' },
    {
      name: 'members',
      type: 'members',
      choices: addresses.map(({ id, name, value }) => ({ value: id, label: `${name} · ${value}` })),
    },
    { name: 'description', type: 'text' },
  ]
  return { resource: addressGroups, text: 'firewall:addressGroup', list: paths.addressGroups, fields }
}

export function Create() {
  return <CreateDrawer {...useForm()} />
}

export function Edit() {
  return <EditDrawer {...useForm()} name={(row) => row.name} />
}
