import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { radiusClients } from '../../api/resources'
import type { Fields } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import { randomSecret } from '../../kit/form/random-secret'
import { ResourceList } from '../../kit/list/ResourceList'
import { Badge } from '../../kit/state/StateBadge'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'

const fields = (fresh: boolean): Fields<'radius.client'> => [
  { name: 'name', type: 'mono' },
  { name: 'address', type: 'mono' },
  {
    name: 'secret',
    type: 'password',
    required: fresh,
    configured: fresh ? undefined : 'secret_configured',
    generate: randomSecret,
  },
  { name: 'require_message_authenticator', type: 'switch' },
]
const form = { resource: radiusClients, text: 'radius:client', list: paths.radiusClients }

export default function Clients() {
  const { t } = useTranslation('radius')
  return (
    <>
      <ResourceList
        resource={radiusClients}
        text="radius:client"
        columns={[
          {
            key: 'name',
            header: t('client.name.label'),
            cell: (row) => <span className="mono">{row.name}</span>,
            sortBy: (row) => row.name,
          },
          {
            key: 'address',
            header: t('client.address.label'),
            cell: (row) => <span className="mono">{row.address}</span>,
            sortBy: (row) => row.address,
          },
          {
            key: 'secret',
            header: t('client.secret.label'),
            width: '150px',
            cell: (row) => (
              <Badge tone={row.secret_configured ? 'live' : 'warn'}>
                {t(row.secret_configured ? 'client.configured' : 'common:secret.none')}
              </Badge>
            ),
          },
          {
            key: 'signed',
            header: t('client.require_message_authenticator.label'),
            width: '170px',
            cell: (row) =>
              row.require_message_authenticator ? null : <Badge tone="warn">{t('client.unsigned')}</Badge>,
          },
          {
            key: 'updated',
            header: t('client.updated'),
            width: '120px',
            align: 'right',
            cell: (row) => <Time at={row.updated_at} />,
            sortBy: (row) => row.updated_at,
          },
        ]}
        searchText={(row) => [row.name, row.address, row.id].join(' ')}
        rowLink={(row) => paths.radiusClient(row.id)}
        createLink={paths.radiusClientNew}
      />
      <Outlet />
    </>
  )
}

export function Create() {
  return <CreateDrawer {...form} fields={fields(true)} />
}

export function Edit() {
  return <EditDrawer {...form} fields={fields(false)} name={(row) => row.name} />
}
