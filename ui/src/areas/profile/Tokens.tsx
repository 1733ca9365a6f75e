import { Button } from '@mantine/core'
import { IconPlus } from '@tabler/icons-react'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useNavigate } from '@tanstack/react-router'
import { useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { answer, http, unwrap } from '../../api/client'
import type { Resource } from '../../api/resource'
import { useMe } from '../../api/session'
import type { ApiToken } from '../../api/types'
import type { Fields } from '../../kit/form/fields'
import { CreateForm } from '../../kit/form/ResourceForm'
import { type Column, DataTable } from '../../kit/list/DataTable'
import { RowButton } from '../../kit/list/RowButton'
import { CopyText } from '../../kit/page/CopyText'
import { DetailDrawer } from '../../kit/page/DetailDrawer'
import { Empty } from '../../kit/page/Empty'
import { Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { Time } from '../../kit/text/Time'
import { paths } from '../../paths'
import { expiryOf, lifetimes, type NewToken } from './lifetime'
import classes from './Profile.module.css'

const tokensQuery = { queryKey: ['api-token'], queryFn: () => unwrap(http.GET('/api-tokens')) }

export default function Tokens() {
  const { t } = useTranslation('profile')
  const queries = useQueryClient()
  const query = useQuery(tokensQuery)
  const remove = async ({ id }: ApiToken) => {
    await unwrap(http.DELETE('/api-tokens/{id}', { params: { path: { id } } }))
    await queries.invalidateQueries(tokensQuery)
  }
  const columns: Column<ApiToken>[] = [
    {
      key: 'name',
      header: t('token.name.label'),
      width: 'minmax(0, 1.6fr)',
      cell: (row) => <span className="mono">{row.name}</span>,
    },
    { key: 'role', header: t('token.role.label'), cell: (row) => t(`roles.${row.role}`) },
    { key: 'expires', header: t('token.expires'), cell: (row) => <Expiry at={row.expires_at} /> },
    { key: 'used', header: t('token.used'), cell: (row) => <Time at={row.last_used_at} /> },
    { key: 'created', header: t('token.created'), cell: (row) => <Time at={row.created_at} /> },
    {
      key: 'delete',
      header: '',
      width: '80px',
      align: 'right',
      cell: (row) => (
        <RowButton
          verb={t('common:delete.verb')}
          name={row.name}
          question={{ title: t('common:delete.title', { name: row.name }), text: t('token.deleteText') }}
          act={() => remove(row)}
          done={t('common:delete.done', { name: row.name })}
        />
      ),
    },
  ]
  const create = (
    <Button component={Link} to={paths.profileTokenNew} size="compact-sm" leftSection={<IconPlus size={14} />}>
      {t('token.create')}
    </Button>
  )
  return (
    <>
      <Loaded query={query} height={160}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty title={t('token.emptyTitle')} text={t('token.emptyText')} action={create} />
          ) : (
            <Panel title={t('token.title')} aside={create} flush>
              <DataTable label={t('token.title')} columns={columns} rows={rows} rowKey={(row) => row.id} />
            </Panel>
          )
        }
      </Loaded>
      <Outlet />
    </>
  )
}

function Expiry({ at }: { at: string | null }) {
  const { t } = useTranslation('profile')
  if (!at) return <span className="soft">{t('token.endless')}</span>
  if (new Date(at) <= new Date()) return <Badge tone="bad">{t('token.expired')}</Badge>
  return <Time at={at} />
}

export function Create() {
  const { t } = useTranslation('profile')
  const navigate = useNavigate()
  const me = useMe()
  const made = useRef('')
  const [token, setToken] = useState('')
  const fields: Fields<'api-token', 'lifetime'> = [
    { name: 'name', type: 'mono' },
    { name: 'role', type: 'choice', options: me.role === 'admin' ? ['viewer', 'admin'] : ['viewer'] },
    { name: 'lifetime', type: 'choice', options: Object.keys(lifetimes) },
  ]
  const tokens: Pick<Resource<ApiToken>, 'kind' | 'create'> = {
    kind: 'api-token',
    create: async (form) => {
      const { name, role, lifetime } = form as NewToken
      const body = { name, role, expires_at: expiryOf(lifetime, Date.now()) }
      const created = await answer(http.POST('/api-tokens', { body }))
      made.current = created.value.token
      return created
    },
  }
  return (
    <DetailDrawer title={t(token ? 'token.made' : 'token.new')} back={paths.profileTokens}>
      {token ? (
        <div className={classes.form}>
          <Notice tone="warn">{t('token.once')}</Notice>
          <CopyText text={token} label={t('token.token')} />
          <p className={classes.text}>{t('token.use')}</p>
          <code className={`mono ${classes.example}`}>Authorization: Bearer gwt_…</code>
          <Button className={classes.submit} onClick={() => navigate({ to: paths.profileTokens })}>
            {t('token.done')}
          </Button>
        </div>
      ) : (
        <CreateForm
          own
          resource={tokens}
          text="profile:token"
          fields={fields}
          defaults={{ role: 'viewer', lifetime: 'quarter' }}
          preview={false}
          onDone={() => setToken(made.current)}
        />
      )}
    </DetailDrawer>
  )
}
