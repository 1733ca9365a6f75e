import { Button, TextInput } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import { meQuery, useMe } from '../../api/session'
import type { TotpSetup } from '../../api/types'
import { placeFault } from '../../kit/form/form-errors'
import { Password } from '../../kit/form/Password'
import { readCode } from '../../kit/login/code'
import { CopyText } from '../../kit/page/CopyText'
import { Notice } from '../../kit/state/Notice'
import { toast, toastFault } from '../../kit/state/toast'
import classes from './Profile.module.css'
import { RecoveryCodes } from './RecoveryCodes'

/** Sets up an authenticator app, confirms it and turns it off again. */
export function AuthenticatorApp() {
  const { t } = useTranslation('profile')
  const me = useMe()
  const queries = useQueryClient()
  const [setup, setSetup] = useState<TotpSetup | null>(null)
  const [codes, setCodes] = useState<string[] | null>(null)
  const begin = useMutation({
    mutationFn: () => unwrap(http.POST('/auth/totp/setup')),
    onSuccess: setSetup,
    onError: toastFault,
  })

  if (codes) return <RecoveryCodes codes={codes} onKept={() => setCodes(null)} />
  if (me.totp_enabled) return <SwitchOff />
  if (setup) {
    return (
      <Confirm
        setup={setup}
        onCancel={() => setSetup(null)}
        onDone={(made) => {
          setSetup(null)
          setCodes(made)
          void queries.invalidateQueries(meQuery)
        }}
      />
    )
  }
  return (
    <div className={classes.form}>
      <p className={classes.text}>{t('app.text')}</p>
      <Button className={classes.submit} loading={begin.isPending} onClick={() => begin.mutate()}>
        {t('app.begin')}
      </Button>
    </div>
  )
}

interface ConfirmProps {
  setup: TotpSetup
  onCancel: () => void
  onDone: (codes: string[]) => void
}

/** The secret for the app, and the code that proves it was entered. */
function Confirm({ setup, onCancel, onDone }: ConfirmProps) {
  const { t } = useTranslation('profile')
  const [problem, setProblem] = useState('')
  const { register, handleSubmit, setError, formState } = useForm({ defaultValues: { code: '' } })
  const submit = handleSubmit(async ({ code }) => {
    setProblem('')
    try {
      const body = { code: readCode(code, false) ?? code }
      onDone((await unwrap(http.POST('/auth/totp/enable', { body }))).recovery_codes)
    } catch (cause) {
      const fault = toFault(cause)
      if (fault.fields.code) setError('code', { message: t('app.wrong') }, { shouldFocus: true })
      else setProblem(placeFault(fault, ['code'], setError))
    }
  })
  return (
    <form onSubmit={submit} noValidate className={classes.enrol}>
      <img
        className={classes.qr}
        src={`data:image/png;base64,${setup.qr_png}`}
        alt={t('app.qr')}
        width={220}
        height={220}
      />
      <div className={classes.form}>
        {problem && <Notice tone="bad">{problem}</Notice>}
        <p className={classes.text}>
          {t('app.scan')} <a href={setup.otpauth_url}>{t('app.open')}</a>
        </p>
        <CopyText text={setup.secret.replace(/(.{4})(?=.)/g, '$1 ')} label={t('app.secret')} />
        <TextInput
          label={t('app.code')}
          description={t('app.codeHelp')}
          classNames={{ input: `mono ${classes.code}` }}
          inputMode="numeric"
          autoComplete="one-time-code"
          maxLength={10}
          autoFocus
          error={formState.errors.code?.message}
          {...register('code', {
            required: t('common:required'),
            validate: (typed) => readCode(typed, false) !== null || t('app.sixDigits'),
          })}
        />
        <div className={classes.buttons}>
          <Button type="submit" loading={formState.isSubmitting}>
            {t('app.confirm')}
          </Button>
          <Button variant="default" onClick={onCancel}>
            {t('common:cancel')}
          </Button>
        </div>
      </div>
    </form>
  )
}

function SwitchOff() {
  const { t } = useTranslation('profile')
  const queries = useQueryClient()
  const [problem, setProblem] = useState('')
  const { register, handleSubmit, setError, formState } = useForm({ defaultValues: { password: '' } })
  const submit = handleSubmit(async (body) => {
    setProblem('')
    try {
      await unwrap(http.POST('/auth/totp/disable', { body }))
      toast('live', t('app.offDone'))
      await queries.invalidateQueries(meQuery)
    } catch (cause) {
      const fault = toFault(cause)
      if (fault.fields.password) setError('password', { message: t('password.wrong') }, { shouldFocus: true })
      else setProblem(placeFault(fault, ['password'], setError))
    }
  })
  return (
    <form onSubmit={submit} noValidate className={classes.form}>
      <p className={classes.text}>{t('app.on')}</p>
      {problem && <Notice tone="bad">{problem}</Notice>}
      <Password
        label={t('password.current')}
        description={t('app.offHelp')}
        autoComplete="current-password"
        error={formState.errors.password?.message}
        {...register('password', { required: t('common:required') })}
      />
      <Button type="submit" color="red.8" loading={formState.isSubmitting} className={classes.submit}>
        {t('app.off')}
      </Button>
    </form>
  )
}
