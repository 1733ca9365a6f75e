import './texts'
import { Button } from '@mantine/core'
import { IconPlus } from '@tabler/icons-react'
import { Link, Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { interfaces } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { NetworkInterface } from '../../api/types'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { Page } from '../../kit/page/Page'
import { Badge } from '../../kit/state/StateBadge'
import { paths } from '../../paths'
import AdoptOffer from './AdoptOffer'
import { type LinkState, type Link as NetworkLink, toneOf } from './links'
import { Picture } from './Picture'
import { useLinks, useZoneNames } from './useLinks'

export { Create, Edit } from './InterfaceForm'

/** A managed interface with its live state, once known. */
type Row = NetworkInterface & { link?: NetworkLink }

const states: LinkState[] = ['up', 'no-carrier', 'down', 'missing']

export default function InterfacesPage() {
  const { t } = useTranslation('network')
  const { links, queries } = useLinks()
  const zones = useZoneNames()
  const canEdit = useCanEdit()
  const known = queries.live.data !== undefined
  const byName = new Map(links.map((link) => [link.name, link]))
  const columns: Column<Row>[] = [
    {
      key: 'name',
      header: t('interface.name.label'),
      cell: (row) => <span className="mono">{row.name}</span>,
      sortBy: (row) => row.name,
    },
    {
      key: 'type',
      header: t('interface.type.label'),
      cell: (row) => t(`kinds.${row.type}`),
      sortBy: (row) => row.type,
    },
    { key: 'zone', header: t('interface.role.label'), cell: (row) => row.role, sortBy: (row) => row.role },
    {
      key: 'addresses',
      header: t('address.title'),
      width: 'minmax(0, 1.4fr)',
      cell: (row) => <Bound link={row.link} />,
    },
    {
      key: 'made',
      header: t('interface.made'),
      width: 'minmax(0, 1.2fr)',
      cell: (row) => <Made row={row} />,
    },
    {
      key: 'mtu',
      header: t('interface.mtu.label'),
      width: '64px',
      align: 'right',
      cell: (row) => row.mtu ?? row.link?.live?.mtu ?? '–',
      sortBy: (row) => row.mtu ?? row.link?.live?.mtu,
    },
    {
      key: 'state',
      header: t('interface.state'),
      width: '110px',
      cell: (row) => (row.link ? <Badge tone={toneOf(row.link)}>{t(`states.${row.link.state}`)}</Badge> : '–'),
      sortBy: (row) => row.link?.state,
    },
    {
      key: 'description',
      header: t('interface.description.label'),
      width: 'minmax(0, 1.6fr)',
      cell: (row) => row.description || '–',
    },
  ]
  return (
    <Page title={t('interface.title')} lead={t('interface.lead')} actions={canEdit && <NewNetwork />}>
      <AdoptOffer />
      <Picture />
      <ResourceList
        resource={interfaces}
        join={(rows): Row[] => rows.map((row) => ({ ...row, link: known ? byName.get(row.name) : undefined }))}
        text="network:interface"
        columns={columns}
        filters={[
          {
            key: 'zone',
            label: t('interface.role.label'),
            options: zones.map((zone) => ({ value: zone, label: zone })),
            of: (row) => row.role,
            many: true,
          },
          {
            key: 'state',
            label: t('interface.state'),
            options: states.map((value) => ({ value, label: t(`states.${value}`) })),
            of: (row) => row.link?.state ?? '',
          },
        ]}
        searchText={(row) =>
          [
            row.name,
            row.type,
            row.role,
            row.description,
            row.parent,
            ...row.members,
            ...(row.link?.addresses.map(({ text }) => text) ?? []),
            row.id,
          ].join(' ')
        }
        rowLink={(row) => paths.interface(row.id)}
        createLink={paths.interfaceNew}
      />
      <Outlet />
    </Page>
  )
}

function NewNetwork() {
  const { t } = useTranslation('network')
  return (
    <Button component={Link} to={paths.networkNew} leftSection={<IconPlus size={16} />}>
      {t('network.create')}
    </Button>
  )
}

function Bound({ link }: { link?: NetworkLink }) {
  const all = link?.addresses.map(({ text }) => text).join(', ')
  return all ? (
    <span className="mono" title={all}>
      {all}
    </span>
  ) : (
    '–'
  )
}

function Made({ row: { type, parent, vlan_id, members } }: { row: Row }) {
  const { t } = useTranslation('network')
  if (type === 'vlan') return t('interface.onParent', { id: vlan_id, parent })
  return members.length > 0 ? <span className="mono">{members.join(', ')}</span> : '–'
}
