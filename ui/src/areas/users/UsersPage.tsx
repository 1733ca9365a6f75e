import { Button } from '@mantine/core'
import { Outlet, useNavigate, useParams } from '@tanstack/react-router'
import { useForm } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import type { User } from '../../api/types'
import { paths } from '../../app/paths'
import { useCanEdit, useMe } from '../../app/session'
import { addTexts } from '../../i18n/i18n'
import type { Column } from '../../kit/DataTable'
import { DetailDrawer } from '../../kit/DetailDrawer'
import type { FieldSpec } from '../../kit/fields'
import { placeFault } from '../../kit/form-errors'
import { Page } from '../../kit/Page'
import { Password } from '../../kit/Password'
import { CreateForm, EditForm } from '../../kit/ResourceForm'
import { ResourceList } from '../../kit/ResourceList'
import { Badge } from '../../kit/StateBadge'
import { Time } from '../../kit/Time'
import { toast, toastFault } from '../../kit/toast'
import en from './en.json'
import { users } from './resources'
import classes from './Users.module.css'

addTexts('users', en)

const roles = ['admin', 'viewer'] as const
const fields: FieldSpec[] = [
  { name: 'email', type: 'email', required: true },
  { name: 'name', type: 'text' },
  { name: 'role', type: 'choice', options: roles },
  { name: 'active', type: 'switch' },
]
const defaults = { email: '', name: '', role: 'viewer', active: true, password: '' }

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
  const { t } = useTranslation('users')
  const navigate = useNavigate()
  return (
    <DetailDrawer title={t('user.new')} back={paths.users}>
      <CreateForm
        resource={users}
        text="users:user"
        fields={[...fields, { name: 'password', type: 'password', required: true }]}
        defaults={defaults}
        preview={false}
        onDone={() => navigate({ to: paths.users })}
      />
    </DetailDrawer>
  )
}

export function Edit() {
  const { t } = useTranslation('users')
  const navigate = useNavigate()
  const me = useMe()
  const { id } = useParams({ strict: false }) as { id: string }
  return (
    <DetailDrawer title={t('user.edit')} back={paths.users}>
      <EditForm
        key={id}
        resource={users}
        id={id}
        text="users:user"
        fields={fields}
        preview={false}
        name={(user) => user.email}
        keep={(user) => (user.id === me.id ? t('user.keepSelf') : undefined)}
        onDone={() => navigate({ to: paths.users })}
      >
        {(user) => <SetPassword user={user} />}
      </EditForm>
    </DetailDrawer>
  )
}

function SetPassword({ user }: { user: User }) {
  const { t } = useTranslation('users')
  const canEdit = useCanEdit()
  const { register, handleSubmit, setError, reset, formState } = useForm({ defaultValues: { password: '' } })
  if (!canEdit) return null
  const submit = handleSubmit(async (body) => {
    try {
      await unwrap(http.POST('/users/{id}/password', { params: { path: { id: user.id } }, body }))
      toast('live', t('password.done', { email: user.email }))
      reset()
    } catch (cause) {
      const fault = toFault(cause)
      if (placeFault(fault, ['password'], setError)) toastFault(fault)
    }
  })
  return (
    <form className={classes.password} onSubmit={submit} noValidate>
      <Password
        label={t('password.label')}
        description={t('password.help')}
        autoComplete="new-password"
        error={formState.errors.password?.message}
        {...register('password', { required: t('common:required') })}
      />
      <Button type="submit" variant="default" loading={formState.isSubmitting}>
        {t('password.verb')}
      </Button>
    </form>
  )
}
