import { Button, Checkbox, TextInput } from '@mantine/core'
import { lazy, useEffect, useState } from 'react'
import { useForm } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../api/client'
import { toFault } from '../api/fault'
import type { SetupStatus } from '../api/types'
import { placeFault } from '../kit/form/form-errors'
import { Password } from '../kit/form/Password'
import { Notice } from '../kit/state/Notice'
import { paths } from '../paths'
import classes from './Door.module.css'
import { keptToken } from './setup-token'

const JoinSetup = lazy(() => import('./JoinSetup'))
const RestoreSetup = lazy(() => import('./RestoreSetup'))

const defaults = {
  setup_token: '',
  admin_email: '',
  admin_password: '',
  fqdn: '',
  acme_enabled: true,
  acme_email: '',
  acme_directory_url: '',
  ipv6_enabled: true,
}
type Values = typeof defaults
type Field = keyof Values

const asked: Field[] = [
  'admin_email',
  'admin_password',
  'fqdn',
  'acme_enabled',
  'acme_email',
  'acme_directory_url',
  'ipv6_enabled',
]
const optional: Field[] = ['acme_directory_url', 'acme_email']
const monospaced: Field[] = ['setup_token', 'fqdn', 'acme_directory_url']

/** The request body, without empty optional fields. */
function bodyOf(fields: Field[], values: Values) {
  const entries = fields.map((name) => [name, values[name]] as const)
  return Object.fromEntries(entries.filter(([name, value]) => value !== '' || !optional.includes(name)))
}

/** Logs in as the new administrator, and opens the network setup. */
async function enter({ admin_email: email, admin_password: password }: Values) {
  await unwrap(http.POST('/auth/login', { body: { email, password } }))
  location.replace(paths.interfaceAdopt)
}

export default function Setup() {
  const { t } = useTranslation('door')
  const [status, setStatus] = useState<SetupStatus | null>(null)
  const [problem, setProblem] = useState('')
  const [done, setDone] = useState(false)
  const [joining, setJoining] = useState(false)
  const [restoring, setRestoring] = useState(keptToken() !== null)
  const { register, handleSubmit, setError, watch, formState } = useForm<Values>({
    defaultValues: defaults,
  })

  useEffect(() => {
    unwrap(http.GET('/setup/status')).then(setStatus, (cause) => setProblem(toFault(cause).message))
  }, [])

  if (restoring) {
    return <RestoreSetup tokenRequired={!!status?.setup_token_required} onBack={() => setRestoring(false)} />
  }

  if (status && !status.completed && (joining || status.is_cluster_node)) {
    return <JoinSetup status={status} onBack={() => setJoining(false)} />
  }

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

  const fields: Field[] = status?.setup_token_required ? ['setup_token', ...asked] : asked
  const acme = watch('acme_enabled')

  const submit = handleSubmit(async (values) => {
    setProblem('')
    try {
      await unwrap(http.POST('/setup/complete', { body: bodyOf(fields, values) as never }))
      await enter(values).catch(() => setDone(true))
    } catch (cause) {
      setProblem(placeFault(toFault(cause), fields, setError))
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
      <p className={classes.lead}>
        {t('setup.lead')} {t('setup.instead')}{' '}
        <button type="button" className={classes.link} disabled={!status} onClick={() => setRestoring(true)}>
          {t('setup.restore')}
        </button>{' '}
        {t('setup.orJoin')}{' '}
        <button type="button" className={classes.link} disabled={!status} onClick={() => setJoining(true)}>
          {t('setup.join')}
        </button>
        .
      </p>
      <div className={classes.fields}>
        {problem && <Notice tone="bad">{problem}</Notice>}
        {fields
          .filter((name) => acme || !['acme_email', 'acme_directory_url'].includes(name))
          .map((name) => (name === 'acme_enabled' || name === 'ipv6_enabled' ? check(name) : input(name)))}
        <Button type="submit" loading={formState.isSubmitting} disabled={!status}>
          {t('setup.submit')}
        </Button>
      </div>
    </form>
  )
}
