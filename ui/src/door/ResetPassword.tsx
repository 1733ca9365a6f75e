import { Button, TextInput } from '@mantine/core'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../api/client'
import { toFault } from '../api/fault'
import { placeFault } from '../kit/form/form-errors'
import { Password } from '../kit/form/Password'
import { Notice } from '../kit/state/Notice'
import classes from './Door.module.css'

export default function ResetPassword() {
  const { t } = useTranslation('door')
  const [problem, setProblem] = useState('')
  const [done, setDone] = useState(false)
  const { register, handleSubmit, setError, formState } = useForm({
    defaultValues: { token: new URLSearchParams(location.search).get('token') ?? '', new_password: '' },
  })

  const submit = handleSubmit(async (body) => {
    setProblem('')
    try {
      await unwrap(http.POST('/auth/reset-password', { body }))
      setDone(true)
    } catch (cause) {
      setProblem(placeFault(toFault(cause), ['token', 'new_password'], setError))
    }
  })

  if (done) {
    return (
      <div className={classes.card}>
        <h1>{t('reset.title')}</h1>
        <div className={classes.fields}>
          <Notice tone="live">{t('reset.done')}</Notice>
          <Button component="a" href="/login">
            {t('reset.toLogin')}
          </Button>
        </div>
      </div>
    )
  }

  return (
    <form className={classes.card} onSubmit={submit} noValidate>
      <h1>{t('reset.title')}</h1>
      <p className={classes.lead}>{t('reset.lead')}</p>
      <div className={classes.fields}>
        {problem && <Notice tone="bad">{problem}</Notice>}
        <TextInput
          label={t('reset.token')}
          description={t('reset.tokenHelp')}
          classNames={{ input: 'mono' }}
          autoComplete="off"
          error={formState.errors.token?.message}
          {...register('token', { required: t('required') })}
        />
        <Password
          label={t('newPassword')}
          description={t('passwordHelp')}
          autoComplete="new-password"
          error={formState.errors.new_password?.message}
          {...register('new_password', { required: t('required') })}
        />
        <Button type="submit" loading={formState.isSubmitting}>
          {t('reset.submit')}
        </Button>
      </div>
      <p className={classes.foot}>
        <a href="/login">{t('reset.back')}</a>
      </p>
    </form>
  )
}
