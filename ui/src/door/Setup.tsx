import { Button, Checkbox, TextInput } from '@mantine/core'
import { useEffect, useState } from 'react'
import { useForm } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../api/client'
import { toFault } from '../api/fault'
import type { SetupStatus } from '../api/types'
import { placeFault } from '../kit/form-errors'
import { Notice } from '../kit/Notice'
import { Password } from '../kit/Password'
import classes from './Door.module.css'

type Mode = 'new' | 'node' | 'join'

const defaults = {
  setup_token: '',
  admin_email: '',
  admin_password: '',
  fqdn: '',
  acme_enabled: true,
  acme_email: '',
  acme_directory_url: '',
  ipv6_enabled: true,
  primary_fqdn: '',
  join_token: '',
  ca_fingerprint: '',
}
type Values = typeof defaults
type Field = keyof Values

const fieldsOf: Record<Mode, Field[]> = {
  new: ['admin_email', 'admin_password', 'fqdn', 'acme_enabled', 'acme_email', 'acme_directory_url', 'ipv6_enabled'],
  node: ['fqdn', 'acme_enabled', 'acme_email', 'acme_directory_url', 'ipv6_enabled'],
  join: ['primary_fqdn', 'join_token', 'ca_fingerprint'],
}
const optional: Field[] = ['acme_directory_url', 'ca_fingerprint', 'setup_token', 'acme_email']
const monospaced: Field[] = [
  'setup_token',
  'fqdn',
  'acme_directory_url',
  'primary_fqdn',
  'join_token',
  'ca_fingerprint',
]

/** The body of a request: its fields, without optional ones that were left empty. */
function bodyOf(fields: Field[], values: Values) {
  const entries = fields.map((name) => [name, values[name]] as const)
  return Object.fromEntries(entries.filter(([name, value]) => value !== '' || !optional.includes(name)))
}

function send(mode: Mode, fields: Field[], values: Values) {
  const body = bodyOf(fields, values) as never
  if (mode === 'new') return unwrap(http.POST('/setup/complete', { body }))
  if (mode === 'node') return unwrap(http.POST('/setup/complete-node', { body }))
  return unwrap(http.POST('/setup/join-cluster', { body }))
}

export default function Setup() {
  const { t } = useTranslation('door')
  const [status, setStatus] = useState<SetupStatus | null>(null)
  const [mode, setMode] = useState<Mode>('new')
  const [problem, setProblem] = useState('')
  const [done, setDone] = useState(false)
  const { register, handleSubmit, setError, clearErrors, watch, formState } = useForm<Values>({
    defaultValues: defaults,
  })

  useEffect(() => {
    unwrap(http.GET('/setup/status')).then(setStatus, (cause) => setProblem(toFault(cause).message))
  }, [])

  if (done || status?.completed) {
    return (
      <div className={classes.card}>
        <h1>{t('setup.title')}</h1>
        <div className={classes.fields}>
          <Notice tone="live">{t(done ? 'setup.done' : 'setup.already')}</Notice>
          <Button component="a" href="/login">
            {t('reset.toLogin')}
          </Button>
        </div>
      </div>
    )
  }

  const fields: Field[] = status?.setup_token_required ? ['setup_token', ...fieldsOf[mode]] : fieldsOf[mode]
  const acme = watch('acme_enabled')

  const submit = handleSubmit(async (values) => {
    setProblem('')
    try {
      await send(mode, fields, values)
      setDone(true)
    } catch (cause) {
      const fault = toFault(cause)
      setProblem(fault.status === 501 ? t('setup.notYet') : placeFault(fault, fields, setError))
    }
  })

  const input = (name: Field) => {
    const common = {
      label: t(`setup.${name}.label`),
      description: t(`setup.${name}.help`),
      error: formState.errors[name]?.message,
      withAsterisk: !optional.includes(name),
      ...register(name, optional.includes(name) ? {} : { required: t('required') }),
    }
    if (name === 'admin_password') return <Password key={name} {...common} autoComplete="new-password" />
    return (
      <TextInput
        key={name}
        {...common}
        type={name.endsWith('email') ? 'email' : 'text'}
        autoComplete={name === 'admin_email' ? 'username' : 'off'}
        classNames={monospaced.includes(name) ? { input: 'mono' } : undefined}
      />
    )
  }
  const check = (name: 'acme_enabled' | 'ipv6_enabled') => (
    <Checkbox key={name} label={t(`setup.${name}.label`)} description={t(`setup.${name}.help`)} {...register(name)} />
  )

  return (
    <form className={`${classes.card} ${classes.wide}`} onSubmit={submit} noValidate>
      <h1>{t('setup.title')}</h1>
      <p className={classes.lead}>{t('setup.lead')}</p>
      <fieldset className={classes.choices}>
        <legend className="visually-hidden">{t('setup.choose')}</legend>
        {(['new', 'node', 'join'] as const).map((choice) => (
          <label key={choice} className={classes.choice}>
            <input
              type="radio"
              name="mode"
              checked={mode === choice}
              onChange={() => {
                setMode(choice)
                setProblem('')
                clearErrors()
              }}
            />
            <div>
              <strong>{t(`setup.mode.${choice}.title`)}</strong>
              <span>{t(`setup.mode.${choice}.text`)}</span>
            </div>
          </label>
        ))}
      </fieldset>
      <div className={classes.fields}>
        {problem && <Notice tone="bad">{problem}</Notice>}
        {fields
          .filter((name) => acme || !['acme_email', 'acme_directory_url'].includes(name))
          .map((name) => (name === 'acme_enabled' || name === 'ipv6_enabled' ? check(name) : input(name)))}
        <Button type="submit" loading={formState.isSubmitting} disabled={!status}>
          {t(`setup.mode.${mode}.submit`)}
        </Button>
      </div>
    </form>
  )
}
