import { Button, Checkbox, Textarea, TextInput } from '@mantine/core'
import { IconHourglass } from '@tabler/icons-react'
import { useEffect, useState } from 'react'
import { useForm } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../api/client'
import { toFault } from '../api/fault'
import type { SetupStatus } from '../api/types'
import { placeFault } from '../kit/form/form-errors'
import { Notice } from '../kit/state/Notice'
import { Badge } from '../kit/state/StateBadge'
import classes from './Door.module.css'

const steps = ['certificate', 'register', 'master-key', 'sync'] as const

interface Props {
  status: SetupStatus
  onBack: () => void
}

/** Joins the machine to a cluster, and then asks for the settings of its own. */
export default function JoinSetup({ status, onBack }: Props) {
  const [joined, setJoined] = useState<SetupStatus | null>(status.is_cluster_node ? status : null)
  const [proof, setProof] = useState('')
  if (joined) return <Node status={joined} proof={proof} />
  return (
    <Join
      tokenRequired={status.setup_token_required}
      onBack={onBack}
      onJoined={(now, token) => {
        setProof(token)
        setJoined(now)
      }}
    />
  )
}

interface JoinProps {
  tokenRequired: boolean
  onBack: () => void
  onJoined: (status: SetupStatus, setupToken: string) => void
}

function Join({ tokenRequired, onBack, onJoined }: JoinProps) {
  const { t } = useTranslation('door')
  const [problem, setProblem] = useState('')
  const { register, handleSubmit, setError, formState } = useForm({
    defaultValues: { setup_token: '', primary_fqdn: '', join_token: '' },
  })
  const busy = formState.isSubmitting
  const submit = handleSubmit(async ({ setup_token, primary_fqdn, join_token }) => {
    setProblem('')
    const body = {
      primary_fqdn: primary_fqdn.trim(),
      join_token: join_token.replace(/\s/g, ''),
      ...(setup_token ? { setup_token } : {}),
    }
    try {
      onJoined(await unwrap(http.POST('/setup/join-cluster', { body: body as never })), setup_token)
    } catch (cause) {
      setProblem(placeFault(toFault(cause), ['setup_token', 'primary_fqdn', 'join_token'], setError))
    }
  })
  const field = (name: 'setup_token' | 'primary_fqdn' | 'join_token') => ({
    label: t(`join.${name}.label`),
    description: t(`join.${name}.help`),
    error: formState.errors[name]?.message,
    withAsterisk: true,
    autoComplete: 'off',
    disabled: busy,
    classNames: { input: 'mono' },
    ...register(name, { required: t('required') }),
  })
  return (
    <form className={`${classes.card} ${classes.wide}`} onSubmit={submit} noValidate>
      <h1>{t('join.title')}</h1>
      <p className={classes.lead}>
        {t('join.lead')}{' '}
        <button type="button" className={classes.link} onClick={onBack} disabled={busy}>
          {t('join.instead')}
        </button>
      </p>
      <div className={classes.fields}>
        {problem && (
          <Notice tone="bad" title={problem}>
            {t('join.failedText')}
          </Notice>
        )}
        {tokenRequired && <TextInput {...field('setup_token')} />}
        <TextInput {...field('primary_fqdn')} />
        <Textarea {...field('join_token')} autosize minRows={3} />
        {busy && <Progress />}
        <Button type="submit" loading={busy}>
          {t('join.verb')}
        </Button>
      </div>
    </form>
  )
}

/** The current step of the join. The machine may be too busy to answer for a while. */
function Progress() {
  const { t } = useTranslation('door')
  const [at, setAt] = useState(0)
  useEffect(() => {
    const look = () =>
      unwrap(http.GET('/setup/status')).then(
        ({ join_step }) => setAt((was) => Math.max(was, (steps as readonly string[]).indexOf(join_step))),
        () => {},
      )
    const timer = setInterval(look, 500)
    return () => clearInterval(timer)
  }, [])
  return (
    <ol className={classes.steps} aria-label={t('join.progress')}>
      {steps.map((step, index) => (
        <li key={step} aria-current={index === at ? 'step' : undefined}>
          <Badge
            tone={index < at ? 'live' : index === at ? 'warn' : 'off'}
            icon={index === at ? IconHourglass : undefined}
          >
            {t(`join.step.${step}`)}
          </Badge>
        </li>
      ))}
    </ol>
  )
}

function Node({ status, proof }: { status: SetupStatus; proof: string }) {
  const { t } = useTranslation('door')
  const [problem, setProblem] = useState('')
  const [done, setDone] = useState(false)
  const { register, handleSubmit, setError, watch, formState } = useForm({
    defaultValues: {
      setup_token: proof,
      acme_enabled: true,
      acme_email: '',
      acme_directory_url: '',
      ipv6_enabled: true,
    },
  })
  const acme = watch('acme_enabled')
  const fields = ['setup_token', 'acme_enabled', 'acme_email', 'acme_directory_url', 'ipv6_enabled'] as const
  const submit = handleSubmit(async ({ setup_token, ...values }) => {
    setProblem('')
    const body = { fqdn: status.fqdn, ...values, ...(setup_token ? { setup_token } : {}) }
    try {
      await unwrap(http.POST('/setup/complete-node', { body: body as never }))
      setDone(true)
    } catch (cause) {
      setProblem(placeFault(toFault(cause), [...fields], setError))
    }
  })
  const text = (name: 'setup_token' | 'acme_email' | 'acme_directory_url', needed = false) => ({
    label: t(`setup.${name}.label`),
    description: t(`setup.${name}.help`),
    error: formState.errors[name]?.message,
    withAsterisk: needed,
    ...register(name, needed ? { required: t('required') } : {}),
  })
  const check = (name: 'acme_enabled' | 'ipv6_enabled') => (
    <Checkbox label={t(`setup.${name}.label`)} description={t(`setup.${name}.help`)} {...register(name)} />
  )
  if (done) {
    return (
      <div className={classes.card}>
        <h1>{t('join.nodeTitle', { name: status.fqdn })}</h1>
        <div className={classes.fields}>
          <Notice tone="live">{t('join.done')}</Notice>
          <Button component="a" href="/login">
            {t('reset.toLogin')}
          </Button>
        </div>
      </div>
    )
  }
  return (
    <form className={`${classes.card} ${classes.wide}`} onSubmit={submit} noValidate>
      <h1>{t('join.nodeTitle', { name: status.fqdn })}</h1>
      <p className={classes.lead}>{t('join.nodeLead')}</p>
      <div className={classes.fields}>
        {problem && <Notice tone="bad">{problem}</Notice>}
        {status.setup_token_required && !proof && (
          <TextInput {...text('setup_token', true)} classNames={{ input: 'mono' }} />
        )}
        {check('acme_enabled')}
        {acme && <TextInput {...text('acme_email', true)} type="email" />}
        {acme && <TextInput {...text('acme_directory_url')} classNames={{ input: 'mono' }} />}
        {check('ipv6_enabled')}
        <Button type="submit" loading={formState.isSubmitting}>
          {t('join.finish')}
        </Button>
      </div>
    </form>
  )
}
