import { Button } from '@mantine/core'
import { Link, Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { radiusUsers } from '../../api/resources'
import { useCanEdit } from '../../api/session'
import type { RadiusUser } from '../../api/types'
import type { Fields } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { RowSwitch } from '../../kit/list/RowSwitch'
import { duration } from '../../kit/text/format'
import { paths } from '../../paths'
import { type ReplyField, replyFields, userShape } from './reply'

const fields = (fresh: boolean): Fields<'radius.user', ReplyField> => [
  { name: 'name', type: 'mono' },
  { name: 'password', type: 'password', required: fresh, configured: fresh ? undefined : 'password_configured' },
  { name: 'active', type: 'switch' },
  ...replyFields,
]
const form = { resource: radiusUsers, text: 'radius:user', list: paths.radius, shape: userShape }

export default function Users() {
  const { t } = useTranslation('radius')
  const canEdit = useCanEdit()
  const columns: Column<RadiusUser>[] = [
    {
      key: 'active',
      header: t('user.on'),
      width: '42px',
      cell: (row) => <RowSwitch resource={radiusUsers} row={row} field="active" name={row.name} harmless />,
    },
    {
      key: 'name',
      header: t('user.name.label'),
      width: 'minmax(0, 1.6fr)',
      main: true,
      cell: (row) => <span className={row.active ? 'mono' : 'mono soft'}>{row.name}</span>,
      sortBy: (row) => row.name,
    },
    {
      key: 'vlan',
      header: t('user.vlan.label'),
      width: '80px',
      cell: (row) => row.reply_attributes?.['Tunnel-Private-Group-Id'] ?? <span className="soft">–</span>,
      sortBy: (row) => Number(row.reply_attributes?.['Tunnel-Private-Group-Id'] ?? 0),
    },
    {
      key: 'address',
      header: t('user.framed_ip.label'),
      cell: (row) => {
        const address = row.reply_attributes?.['Framed-IP-Address']
        return address ? <span className="mono">{address}</span> : <span className="soft">–</span>
      },
      sortBy: (row) => row.reply_attributes?.['Framed-IP-Address'],
    },
    {
      key: 'timeout',
      header: t('user.session_timeout.label'),
      cell: (row) => {
        const seconds = row.reply_attributes?.['Session-Timeout']
        return seconds ? duration(seconds) : <span className="soft">–</span>
      },
      sortBy: (row) => row.reply_attributes?.['Session-Timeout'],
    },
    ...(canEdit
      ? [
          {
            key: 'test',
            header: t('test.short'),
            width: '52px',
            align: 'right' as const,
            cell: (row: RadiusUser) => <TestLink name={row.name} />,
          },
        ]
      : []),
  ]
  return (
    <>
      <ResourceList
        resource={radiusUsers}
        text="radius:user"
        columns={columns}
        searchText={(row) => [row.name, ...Object.values(row.reply_attributes ?? {}), row.id].join(' ')}
        rowLink={(row) => paths.radiusUser(row.id)}
        createLink={paths.radiusUserNew}
      />
      <Outlet />
    </>
  )
}

function TestLink({ name }: { name: string }) {
  const { t } = useTranslation('radius')
  return (
    <Button
      component={Link}
      to={paths.radiusTest}
      state={{ name } as never}
      size="compact-xs"
      variant="default"
      aria-label={t('test.of', { name })}
    >
      {t('test.short')}
    </Button>
  )
}

export function Create() {
  return <CreateDrawer {...form} fields={fields(true)} />
}

export function Edit() {
  return <EditDrawer {...form} fields={fields(false)} name={(row) => row.name} />
}
