import { Button, TextInput } from '@mantine/core'
import { useEffect, useState } from 'react'
import { useForm } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../api/client'
import { toFault } from '../api/fault'
import { placeFault } from '../kit/form/form-errors'
import { Password } from '../kit/form/Password'
import { Notice } from '../kit/state/Notice'
import classes from './Door.module.css'
import { rememberNext, safeNext } from './next'
import { type Pending, SecondStep } from './SecondStep'
import { ssoErrorText } from './sso'

export function Login() {
  const { t } = useTranslation('door')
  const [problem, setProblem] = useState(() => {
    const text = ssoErrorText(location.search)
    return text ? t(text) : ''
  })
  const [pending, setPending] = useState<Pending | null>(null)
  const [issuer, setIssuer] = useState('')
  const form = useForm({ defaultValues: { email: '', password: '' } })
  const { register, formState } = form

  useEffect(() => {
    unwrap(http.GET('/setup/status')).then(
      (status) => status.completed || location.replace('/setup'),
      () => {},
    )
    unwrap(http.GET('/auth/oidc/settings')).then(
      (sso) => sso.enabled && setIssuer(sso.issuer),
      () => {},
    )
  }, [])

  const submit = form.handleSubmit(async (body) => {
    setProblem('')
    // Load the console's code while the server checks the password.
    void import('../app/App')
    try {
      const { totp_required, challenge = '', methods = [] } = await unwrap(http.POST('/auth/login', { body }))
      if (totp_required) setPending({ challenge, methods })
      else location.replace(safeNext(location.search))
    } catch (cause) {
      const fault = toFault(cause)
      if (fault.code === 'setup_required') location.replace('/setup')
      const minutes = Math.ceil((fault.retryAfter ?? 60) / 60)
      setProblem(
        fault.status === 429
          ? t('login.throttled', { count: minutes })
          : placeFault(fault, ['email', 'password'], form.setError),
      )
    }
  })

  if (pending) {
    const begin = (why: string) => {
      form.resetField('password')
      setProblem(why)
      setPending(null)
    }
    return <SecondStep {...pending} onOver={begin} />
  }

  return (
    <form className={classes.card} onSubmit={submit} noValidate>
      <h1>{t('login.title')}</h1>
      <p className={classes.lead}>{t('login.lead')}</p>
      <div className={classes.fields}>
        {problem && <Notice tone="bad">{problem}</Notice>}
        <TextInput
          label={t('login.email')}
          type="email"
          autoComplete="username"
          autoFocus
          error={formState.errors.email?.message}
          {...register('email', { required: t('required') })}
        />
        <Password
          label={t('login.password')}
          autoComplete="current-password"
          error={formState.errors.password?.message}
          {...register('password', { required: t('required') })}
        />
        <Button type="submit" loading={formState.isSubmitting} fullWidth>
          {t('login.submit')}
        </Button>
        {issuer && (
          <>
            <p className={classes.or}>{t('or')}</p>
            <Button
              component="a"
              href="/api/v1/auth/oidc/login"
              variant="default"
              fullWidth
              onClick={() => rememberNext(location.search)}
            >
              {t('sso.verb', { issuer })}
            </Button>
          </>
        )}
      </div>
      <p className={classes.foot}>
        <a href="/reset-password">{t('login.forgot')}</a>
      </p>
    </form>
  )
}
