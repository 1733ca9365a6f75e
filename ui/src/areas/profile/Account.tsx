import { Button } from '@mantine/core'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import { useMe } from '../../api/session'
import { placeFault } from '../../kit/form/form-errors'
import { Password } from '../../kit/form/Password'
import { Facts, Panel } from '../../kit/page/Page'
import { Notice } from '../../kit/state/Notice'
import { toast } from '../../kit/state/toast'
import classes from './Profile.module.css'

export default function Account() {
  const { t } = useTranslation('profile')
  const me = useMe()
  return (
    <>
      <Panel title={t('account')}>
        <Facts
          facts={[
            [t('email'), me.email],
            [t('name'), me.name || '–'],
            [t('role'), t(`roles.${me.role}`)],
            [t('method'), t(`methods.${me.auth_method}`)],
          ]}
        />
      </Panel>
      <Panel title={t('password.title')}>
        <ChangePassword />
      </Panel>
    </>
  )
}

function ChangePassword() {
  const { t } = useTranslation('profile')
  const [problem, setProblem] = useState('')
  const { register, handleSubmit, setError, reset, formState } = useForm({
    defaultValues: { current_password: '', new_password: '' },
  })
  const submit = handleSubmit(async (body) => {
    setProblem('')
    try {
      await unwrap(http.POST('/auth/change-password', { body }))
      toast('live', t('password.done'))
      reset()
    } catch (cause) {
      const fault = toFault(cause)
      if (fault.status === 401) setError('current_password', { message: t('password.wrong') }, { shouldFocus: true })
      else setProblem(placeFault(fault, ['current_password', 'new_password'], setError))
    }
  })
  return (
    <form onSubmit={submit} noValidate className={classes.form}>
      {problem && <Notice tone="bad">{problem}</Notice>}
      <Password
        label={t('password.current')}
        autoComplete="current-password"
        error={formState.errors.current_password?.message}
        {...register('current_password', { required: t('common:required') })}
      />
      <Password
        label={t('password.new')}
        description={t('password.help')}
        autoComplete="new-password"
        error={formState.errors.new_password?.message}
        {...register('new_password', { required: t('common:required') })}
      />
      <Button type="submit" loading={formState.isSubmitting} className={classes.submit}>
        {t('password.verb')}
      </Button>
    </form>
  )
}
