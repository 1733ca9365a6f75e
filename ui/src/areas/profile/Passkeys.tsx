import { Button, TextInput } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import { meQuery, useMe } from '../../api/session'
import type { Passkey } from '../../api/types'
import { placeFault } from '../../kit/form/form-errors'
import { type Column, DataTable } from '../../kit/list/DataTable'
import { RowButton } from '../../kit/list/RowButton'
import { makePasskey, passkeyProblem, passkeysHere } from '../../kit/login/passkey'
import { Loaded } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { toast } from '../../kit/state/toast'
import { Time } from '../../kit/text/Time'
import classes from './Profile.module.css'

const passkeysQuery = {
  queryKey: ['auth.passkey'],
  queryFn: () => unwrap(http.GET('/auth/passkeys')),
}

export function Passkeys() {
  const { t } = useTranslation('profile')
  const me = useMe()
  const queries = useQueryClient()
  const query = useQuery(passkeysQuery)

  const remove = async ({ id }: Passkey) => {
    await unwrap(http.DELETE('/auth/passkeys/{id}', { params: { path: { id } } }))
    await Promise.all([queries.invalidateQueries(passkeysQuery), queries.invalidateQueries(meQuery)])
  }
  const columns: Column<Passkey>[] = [
    { key: 'name', header: t('passkey.name'), width: 'minmax(0, 1.4fr)', cell: (row) => row.name },
    {
      key: 'host',
      header: t('passkey.host'),
      width: 'minmax(0, 1.4fr)',
      cell: (row) => <span className="mono">{row.host}</span>,
    },
    { key: 'created', header: t('passkey.created'), cell: (row) => <Time at={row.created_at} /> },
    { key: 'used', header: t('passkey.used'), cell: (row) => <Time at={row.last_used_at} /> },
    {
      key: 'delete',
      header: '',
      width: '80px',
      align: 'right',
      cell: (row) => (
        <RowButton
          verb={t('common:delete.verb')}
          name={row.name}
          question={{
            title: t('common:delete.title', { name: row.name }),
            text: t(me.passkeys === 1 && !me.totp_enabled ? 'passkey.deleteLast' : 'passkey.deleteText'),
          }}
          act={() => remove(row)}
          done={t('common:delete.done', { name: row.name })}
        />
      ),
    },
  ]
  return (
    <div className={classes.passkeys}>
      <p className={classes.text}>{t('passkey.text')}</p>
      <Loaded query={query} height={60}>
        {(rows) =>
          rows.length > 0 && (
            <div className={classes.table}>
              <DataTable label={t('passkey.title')} columns={columns} rows={rows} rowKey={(row) => row.id} />
            </div>
          )
        }
      </Loaded>
      {passkeysHere() ? <AddPasskey /> : <Notice tone="off">{t('passkey.unsupported')}</Notice>}
    </div>
  )
}

function AddPasskey() {
  const { t } = useTranslation('profile')
  const queries = useQueryClient()
  const [problem, setProblem] = useState('')
  const { register, handleSubmit, setError, reset, formState } = useForm({ defaultValues: { name: '' } })
  const submit = handleSubmit(async ({ name }) => {
    setProblem('')
    try {
      const { options } = await unwrap(http.POST('/auth/passkeys/register/begin'))
      const credential = (await makePasskey(options)) as never
      await unwrap(http.POST('/auth/passkeys/register/finish', { body: { name, credential } }))
      toast('live', t('passkey.added', { name }))
      reset()
      await Promise.all([queries.invalidateQueries(passkeysQuery), queries.invalidateQueries(meQuery)])
    } catch (cause) {
      const why = passkeyProblem(cause)
      setProblem(why ? t(`passkey.problem.${why}`) : placeFault(toFault(cause), ['name'], setError))
    }
  })
  return (
    <form onSubmit={submit} noValidate className={classes.form}>
      {problem && <Notice tone="bad">{problem}</Notice>}
      <TextInput
        label={t('passkey.newName')}
        description={t('passkey.nameHelp')}
        maxLength={100}
        autoComplete="off"
        error={formState.errors.name?.message}
        {...register('name', { required: t('common:required') })}
      />
      <Button type="submit" loading={formState.isSubmitting} className={classes.submit}>
        {t('passkey.add')}
      </Button>
    </form>
  )
}
