import { Button, TextInput } from '@mantine/core'
import { IconFingerprint } from '@tabler/icons-react'
import { useEffect, useRef, useState } from 'react'
import { useForm } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../api/client'
import { toFault } from '../api/fault'
import { readCode } from '../kit/login/code'
import { askForPasskey, passkeyProblem, passkeysHere } from '../kit/login/passkey'
import { Notice } from '../kit/state/Notice'
import { clockTime } from '../kit/text/format'
import classes from './Door.module.css'
import { safeNext } from './next'

// The gateway's limits for the second step: its duration, and the number of tries.
const lifetime = 5 * 60_000
const allowed = 5

export interface Pending {
  challenge: string
  methods: ('totp' | 'passkey')[]
}

interface SecondStepProps extends Pending {
  /** The login must start again. `why` is empty if the user cancelled. */
  onOver: (why: string) => void
}

/** The second step of a login: a code of the app, a recovery code, or a passkey. */
export function SecondStep({ challenge, methods, onOver }: SecondStepProps) {
  const { t } = useTranslation('door')
  const [ends] = useState(() => Date.now() + lifetime)
  const [left, setLeft] = useState(allowed)
  const [problem, setProblem] = useState('')
  const [byRecovery, setByRecovery] = useState(false)
  const [asking, setAsking] = useState(false)
  const { register, handleSubmit, setError, resetField, setFocus, formState } = useForm({ defaultValues: { code: '' } })
  const byCode = methods.includes('totp')
  const byPasskey = methods.includes('passkey')
  const over = useRef(onOver)
  over.current = onOver

  useEffect(() => {
    const timer = setTimeout(() => over.current(t('second.expired')), ends - Date.now())
    return () => clearTimeout(timer)
  }, [ends, t])

  /** Shows the error, at the field if the code is wrong, and how many tries are left. */
  const refuse = (cause: unknown) => {
    const fault = toFault(cause)
    if (fault.fields.challenge) return onOver(t('second.over'))
    if (fault.status === 401) {
      if (left <= 1) return onOver(t('second.over'))
      setLeft(left - 1)
    }
    const tries = t('second.left', { count: left - 1 })
    if (fault.fields.code) {
      resetField('code')
      setError('code', { message: `${t('second.wrong')} ${tries}` })
      return setFocus('code')
    }
    const minutes = Math.ceil((fault.retryAfter ?? 60) / 60)
    setProblem(
      fault.status === 429
        ? t('login.throttled', { count: minutes })
        : fault.fields.credential
          ? `${t('second.refused')} ${tries}`
          : fault.message,
    )
  }

  const enter = () => location.replace(safeNext(location.search))

  const submit = handleSubmit(async ({ code }) => {
    setProblem('')
    try {
      await unwrap(http.POST('/auth/login/totp', { body: { challenge, code: readCode(code) ?? code } }))
      enter()
    } catch (cause) {
      refuse(cause)
    }
  })

  const askPasskey = async () => {
    setProblem('')
    setAsking(true)
    try {
      const { options } = await unwrap(http.POST('/auth/login/passkey/begin', { body: { challenge } }))
      const credential = await askForPasskey(options)
      await unwrap(http.POST('/auth/login/passkey/finish', { body: { challenge, credential: credential as never } }))
      enter()
    } catch (cause) {
      const why = passkeyProblem(cause)
      if (why) setProblem(t(`second.passkey.${why}`))
      else refuse(cause)
    } finally {
      setAsking(false)
    }
  }

  return (
    <form className={classes.card} onSubmit={submit} noValidate>
      <h1>{t('second.title')}</h1>
      <p className={classes.lead}>{t(byCode ? 'second.leadCode' : 'second.leadPasskey')}</p>
      <div className={classes.fields}>
        {problem && <Notice tone="bad">{problem}</Notice>}
        {byCode && (
          <>
            <TextInput
              key={String(byRecovery)}
              label={t(byRecovery ? 'second.recovery' : 'second.code')}
              description={t(byRecovery ? 'second.recoveryHelp' : 'second.codeHelp')}
              classNames={{ input: `mono ${byRecovery ? '' : classes.code}` }}
              inputMode={byRecovery ? 'text' : 'numeric'}
              autoComplete={byRecovery ? 'off' : 'one-time-code'}
              autoCapitalize="none"
              spellCheck={false}
              maxLength={40}
              autoFocus
              error={formState.errors.code?.message}
              {...register('code', {
                required: t('required'),
                validate: (typed) => readCode(typed) !== null || t('second.form'),
              })}
            />
            <Button type="submit" loading={formState.isSubmitting} fullWidth>
              {t('second.submit')}
            </Button>
          </>
        )}
        {byPasskey && byCode && passkeysHere() && <p className={classes.or}>{t('or')}</p>}
        {byPasskey && passkeysHere() && (
          <Button
            variant={byCode ? 'default' : 'filled'}
            leftSection={<IconFingerprint size={17} aria-hidden />}
            loading={asking}
            onClick={askPasskey}
            autoFocus={!byCode}
            fullWidth
          >
            {t('second.passkey.verb')}
          </Button>
        )}
        {byPasskey && !passkeysHere() && (
          <Notice tone={byCode ? 'off' : 'warn'}>
            {t(byCode ? 'second.passkey.none' : 'second.passkey.noneAtAll')}
          </Notice>
        )}
      </div>
      <p className={classes.foot}>{t('second.until', { time: clockTime(ends).slice(0, 5) })}</p>
      <p className={classes.foot}>
        {byCode && (
          <>
            <button
              type="button"
              className={classes.link}
              onClick={() => {
                resetField('code')
                setByRecovery(!byRecovery)
              }}
            >
              {t(byRecovery ? 'second.useApp' : 'second.useRecovery')}
            </button>
            {' · '}
          </>
        )}
        <button type="button" className={classes.link} onClick={() => onOver('')}>
          {t('second.back')}
        </button>
      </p>
    </form>
  )
}
