import { Button, Select, TextInput } from '@mantine/core'
import {
  IconAlertTriangle,
  IconArrowsExchange,
  IconArrowsSplit2,
  IconBan,
  IconCertificate,
  IconChevronRight,
  IconCircleCheck,
  IconCircleDashed,
  IconCircleMinus,
  IconHourglass,
  IconLogin,
  IconPlugConnected,
  type IconProps,
  IconRoute,
  IconShield,
  IconWorld,
} from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { type ComponentType, type FormEvent, useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import type { PathAnswer, PathStep } from '../../api/types'
import { Choice } from '../../kit/form/Choice'
import type { ListSearch } from '../../kit/list/list-logic'
import { Panel } from '../../kit/page/Page'
import { FaultNotice } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { paths } from '../../paths'
import { AdminsOnly } from './AdminsOnly'
import { type Fate, type PathForm, pathFormFrom, questionOf, stationsOf, toneOf } from './chain'
import classes from './Diagnostics.module.css'
import { Port } from './fields'
import { followed } from './run'

export default function Path() {
  return (
    <AdminsOnly>
      <PathFinder />
    </AdminsOnly>
  )
}

/** Why X cannot reach Y: one question, the steps as they are decided, and where the packet ends up. */
function PathFinder() {
  const { t } = useTranslation('diagnostics')
  const search = useSearch({ strict: false }) as ListSearch
  const navigate = useNavigate()
  const [form, setForm] = useState(() => pathFormFrom(search))
  const [steps, setSteps] = useState<PathStep[]>([])
  const [answer, setAnswer] = useState<PathAnswer | null>(null)
  const [fault, setFault] = useState<unknown>(null)
  const [busy, setBusy] = useState(false)
  const running = useRef<AbortController | null>(null)
  useEffect(() => () => running.current?.abort(), [])

  const ask = async () => {
    running.current?.abort()
    const control = new AbortController()
    running.current = control
    setBusy(true)
    setSteps([])
    setAnswer(null)
    setFault(null)
    // The question is in the address bar, so that it can be shared.
    void navigate({
      to: '.',
      search: { ...form, port: form.port === '' ? undefined : String(form.port) },
      replace: true,
    } as never)
    try {
      const got = await followed(
        control.signal,
        ({ step }) => step && setSteps((old) => [...old, step]),
        (run) => unwrap(http.POST('/diagnostics/path', { body: { ...questionOf(form), run }, signal: control.signal })),
      )
      setSteps(got.steps)
      setAnswer(got)
    } catch (cause) {
      if (!control.signal.aborted) setFault(cause)
    } finally {
      if (running.current === control) setBusy(false)
    }
  }
  const faults = fault ? toFault(fault).fields : {}
  return (
    <>
      <Panel title={t('path.question')}>
        <PathFields form={form} faults={faults} busy={busy} onChange={setForm} onAsk={() => void ask()} />
      </Panel>
      {fault !== null && Object.keys(faults).length === 0 && <FaultNotice fault={fault} />}
      {!busy && !answer && fault === null && <Notice tone="off">{t('path.empty')}</Notice>}
      {(busy || answer) && (
        <Panel title={t('path.way')}>
          {answer && (
            <Notice tone={toneOf(answer)} title={answer.summary}>
              {answer.advice}
            </Notice>
          )}
          <Chain steps={steps} running={busy} />
        </Panel>
      )}
    </>
  )
}

interface PathFieldsProps {
  form: PathForm
  faults: Record<string, string>
  busy: boolean
  onChange: (form: PathForm) => void
  onAsk: () => void
}

function PathFields({ form, faults, busy, onChange, onAsk }: PathFieldsProps) {
  const { t } = useTranslation('diagnostics')
  const zones = useQuery({
    queryKey: ['firewall.zone'],
    queryFn: () => unwrap(http.GET('/firewall/zones')),
  })
  const put = (part: Partial<PathForm>) => onChange({ ...form, ...part })
  const names = (zones.data ?? []).map(({ name }) => name)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    onAsk()
  }
  return (
    <form onSubmit={submit} className={classes.fields}>
      <Choice
        label={t('path.from')}
        data={[
          { value: 'gateway', label: t('path.gateway') },
          { value: 'address', label: t('path.address') },
          ...names.map((name) => ({ value: `zone:${name}`, label: t('path.zone', { name }) })),
        ]}
        value={form.from}
        onChange={(value) => put({ from: value ?? 'gateway' })}
        error={faults.source_zone}
      />
      {form.from !== 'gateway' && (
        <TextInput
          label={t(form.from === 'address' ? 'path.source' : 'path.sourceOptional')}
          placeholder="10.10.0.2"
          classNames={{ input: 'mono' }}
          value={form.source}
          onChange={(event) => put({ source: event.currentTarget.value.trim() })}
          error={faults.source}
        />
      )}
      <TextInput
        className={classes.target}
        label={t('path.destination')}
        placeholder={t('path.example')}
        classNames={{ input: 'mono' }}
        value={form.destination}
        onChange={(event) => put({ destination: event.currentTarget.value.trim() })}
        error={faults.destination}
        autoComplete="off"
        spellCheck={false}
      />
      <Select
        label={t('path.protocol')}
        data={['tcp', 'udp', 'icmp']}
        value={form.protocol}
        onChange={(value) => put({ protocol: (value ?? 'tcp') as PathForm['protocol'] })}
        allowDeselect={false}
        error={faults.protocol}
      />
      {form.protocol !== 'icmp' && (
        <Port label={t('path.port')} value={form.port} onChange={(port) => put({ port })} error={faults.port} />
      )}
      <Button
        className={classes.act}
        type="submit"
        leftSection={<IconRoute size={16} />}
        loading={busy}
        disabled={form.destination === '' || (form.from === 'address' && form.source === '')}
      >
        {t('path.ask')}
      </Button>
    </form>
  )
}

const icons: Record<PathStep['kind'], ComponentType<IconProps>> = {
  name: IconWorld,
  source: IconLogin,
  route: IconArrowsSplit2,
  filter: IconShield,
  nat: IconArrowsExchange,
  connect: IconPlugConnected,
  certificate: IconCertificate,
}

const fates: Record<Fate, ComponentType<IconProps>> = {
  ok: IconCircleCheck,
  warning: IconAlertTriangle,
  failed: IconBan,
  skipped: IconCircleMinus,
  unreached: IconCircleDashed,
  waiting: IconHourglass,
}

/** The path from left to right, as far as the packet gets. */
function Chain({ steps, running }: { steps: readonly PathStep[]; running: boolean }) {
  const { t } = useTranslation('diagnostics')
  return (
    <ol className={classes.chain} aria-busy={running}>
      {stationsOf(steps, running).map(({ kind, fate, step }, index) => {
        const Icon = icons[kind]
        const Fate = fates[fate]
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: a chain only grows at its end, and its stations have no ids.
          <li key={index} data-fate={fate}>
            <IconChevronRight size={18} className={classes.arrow} aria-hidden />
            <div className={classes.stationHead}>
              <Icon size={20} stroke={1.6} aria-hidden />
              <strong>{t(`path.kinds.${kind}`)}</strong>
              <span className={classes.fate}>
                <Fate size={14} aria-hidden /> {t(`path.fates.${fate}`)}
              </span>
            </div>
            {step && <p>{step.text}</p>}
            {step?.rule_id && (
              <Link to={kind === 'nat' ? paths.natRule(step.rule_id) : paths.rule(step.rule_id)}>
                {t('path.showRule', { name: step.subject })}
              </Link>
            )}
          </li>
        )
      })}
    </ol>
  )
}
