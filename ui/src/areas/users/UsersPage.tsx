import { Outlet } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { users } from '../../api/resources'
import { useMe } from '../../api/session'
import type { User } from '../../api/types'
import { addTexts } from '../../i18n/i18n'
import type { Fields } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import type { Column } from '../../kit/list/DataTable'
import { ResourceList } from '../../kit/list/ResourceList'
import { Page } from '../../kit/page/Page'
import { Badge } from '../../kit/state/StateBadge'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import en from './en.json'
import { Factors, SecondFactor, Subject } from './SecondFactor'
import { SetPassword } from './SetPassword'

addTexts('users', en)

const roles = ['admin', 'viewer'] as const
const fields: Fields<'user'> = [
  { name: 'email', type: 'email' },
  { name: 'name', type: 'text' },
  { name: 'role', type: 'choice', options: roles },
  { name: 'active', type: 'switch' },
]

export default function UsersPage() {
  const { t } = useTranslation('users')
  const columns: Column<User>[] = [
    {
      key: 'email',
      header: t('user.email.label'),
      width: 'minmax(0, 1.6fr)',
      cell: (row) => row.email,
      sortBy: (row) => row.email,
    },
    {
      key: 'name',
      header: t('user.name.label'),
      width: 'minmax(0, 1.4fr)',
      cell: (row) => row.name || '–',
      sortBy: (row) => row.name,
    },
    {
      key: 'role',
      header: t('user.role.label'),
      cell: (row) => t(`user.roles.${row.role}`),
      sortBy: (row) => row.role,
    },
    {
      key: 'active',
      header: t('user.state'),
      cell: (row) => (
        <Badge tone={row.active ? 'live' : 'off'}>{t(row.active ? 'user.active.on' : 'user.active.off')}</Badge>
      ),
      sortBy: (row) => row.active,
    },
    {
      key: 'second',
      header: t('user.second.label'),
      width: 'minmax(0, 1.2fr)',
      cell: (row) => <Factors user={row} />,
      sortBy: (row) => Number(row.totp_enabled) + row.passkeys,
    },
    {
      key: 'login',
      header: t('user.lastLogin'),
      align: 'right',
      cell: (row) => <Time at={row.last_login_at} />,
      sortBy: (row) => row.last_login_at,
    },
  ]
  return (
    <Page title={t('title')} lead={t('lead')}>
      <ResourceList
        resource={users}
        text="users:user"
        columns={columns}
        filters={[
          {
            key: 'role',
            label: t('user.role.label'),
            options: roles.map((value) => ({ value, label: t(`user.roles.${value}`) })),
            of: (row) => row.role,
          },
          {
            key: 'second',
            label: t('user.second.label'),
            options: ['no', 'yes'].map((value) => ({ value, label: t(`user.second.${value}`) })),
            of: (row) => (row.totp_enabled || row.passkeys > 0 ? 'yes' : 'no'),
          },
        ]}
        searchText={(row) => `${row.email} ${row.name} ${row.id}`}
        rowLink={(row) => paths.user(row.id)}
        createLink={paths.userNew}
      />
      <Outlet />
    </Page>
  )
}

export function Create() {
  return (
    <CreateDrawer
      resource={users}
      text="users:user"
      list={paths.users}
      fields={[...fields, { name: 'password', type: 'password', required: true }]}
      preview={false}
    />
  )
}

export function Edit() {
  const { t } = useTranslation('users')
  const me = useMe()
  return (
    <EditDrawer
      resource={users}
      text="users:user"
      list={paths.users}
      fields={fields}
      preview={false}
      name={(user) => user.email}
      keep={(user) => (user.id === me.id ? t('user.keepSelf') : undefined)}
    >
      {(user) => (
        <>
          <SecondFactor user={user} />
          <Subject user={user} />
          <SetPassword user={user} />
        </>
      )}
    </EditDrawer>
  )
}
