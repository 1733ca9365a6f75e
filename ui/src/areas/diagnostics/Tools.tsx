import { Button, SegmentedControl, Select, TextInput } from '@mantine/core'
import { useSearch } from '@tanstack/react-router'
import { type FormEvent, useEffect, useRef, useState, useSyncExternalStore } from 'react'
import { useTranslation } from 'react-i18next'
import { http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import type { ListSearch } from '../../kit/list/list-logic'
import { Panel } from '../../kit/page/Page'
import { Time } from '../../kit/text/Time'
import { AdminsOnly } from './AdminsOnly'
import classes from './Diagnostics.module.css'
import { Port, RunOrStop } from './fields'
import { followed } from './run'
import { StandingBadge, Terminal } from './Terminal'
import { bodyOf, commandOf, formFrom, history, recordTypes, type Tool, type ToolForm, tools } from './tool'

export default function Tools() {
  return (
    <AdminsOnly>
      <ToolBench />
    </AdminsOnly>
  )
}

/** The form, the output of the running tool, and earlier runs. */
function ToolBench() {
  const { t } = useTranslation('diagnostics')
  const search = useSearch({ strict: false }) as ListSearch
  const entries = useSyncExternalStore(history.subscribe, history.list)
  const [form, setForm] = useState(() => formFrom(search))
  const [chosen, setChosen] = useState<number | null>(null)
  const [faults, setFaults] = useState<Record<string, string>>({})
  const running = useRef<AbortController | null>(null)
  // Leaving the page stops the run.
  useEffect(() => () => running.current?.abort(), [])

  const shown = entries.find(({ id }) => id === chosen) ?? entries[0]
  const busy = entries.some(({ end }) => !end)

  const run = async (next: ToolForm) => {
    setForm(next)
    setFaults({})
    const control = new AbortController()
    running.current = control
    const id = history.begin(next)
    setChosen(id)
    try {
      const result = await followed(
        control.signal,
        ({ output = '' }) => history.change(id, (entry) => ({ output: entry.output + output })),
        (follow) =>
          unwrap(
            http.POST(`/diagnostics/${next.tool}`, {
              body: { ...bodyOf(next), run: follow } as never,
              signal: control.signal,
            }),
          ),
      )
      history.change(id, () => ({ output: result.output, end: { kind: 'result', result } }))
    } catch (cause) {
      const fault = toFault(cause)
      setFaults(control.signal.aborted ? {} : fault.fields)
      history.change(id, () => ({
        end: control.signal.aborted ? { kind: 'stopped' } : { kind: 'failed', message: fault.message },
      }))
    }
  }

  return (
    <>
      <Panel title={t('tools.title')}>
        <ToolFields
          form={form}
          faults={faults}
          busy={busy}
          onChange={setForm}
          onRun={() => void run(form)}
          onStop={() => running.current?.abort()}
        />
      </Panel>
      {shown && <Terminal entry={shown} />}
      {entries.length > 1 && (
        <Panel
          title={t('history.title')}
          aside={
            <Button size="compact-sm" variant="subtle" onClick={() => history.clear()}>
              {t('history.clear')}
            </Button>
          }
          flush
        >
          <ul className={classes.history}>
            {entries.map((entry) => (
              <li key={entry.id} data-shown={entry.id === shown?.id || undefined}>
                <button type="button" onClick={() => setChosen(entry.id)} aria-pressed={entry.id === shown?.id}>
                  <span className="mono">{commandOf(entry.form)}</span>
                </button>
                <StandingBadge entry={entry} />
                <span className={classes.when}>
                  <Time at={new Date(entry.at).toISOString()} />
                </span>
                <Button
                  size="compact-sm"
                  variant="default"
                  disabled={busy}
                  aria-label={t('history.againName', { command: commandOf(entry.form) })}
                  onClick={() => void run(entry.form)}
                >
                  {t('history.again')}
                </Button>
              </li>
            ))}
          </ul>
        </Panel>
      )}
    </>
  )
}

interface ToolFieldsProps {
  form: ToolForm
  faults: Record<string, string>
  busy: boolean
  onChange: (form: ToolForm) => void
  onRun: () => void
  onStop: () => void
}

function ToolFields({ form, faults, busy, onChange, onRun, onStop }: ToolFieldsProps) {
  const { t } = useTranslation('diagnostics')
  const { tool } = form
  const put = (part: Partial<ToolForm>) => onChange({ ...form, ...part })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (!busy) onRun()
  }
  return (
    <form onSubmit={submit} className={classes.form}>
      <div className={classes.choice}>
        <SegmentedControl
          aria-label={t('tools.tool')}
          value={tool}
          onChange={(value) => put({ tool: value as Tool })}
          data={tools.map((value) => ({ value, label: t(`tools.names.${value}`) }))}
        />
        <p className="soft">{t(`tools.help.${tool}`)}</p>
      </div>
      <div className={classes.fields}>
        <TextInput
          className={classes.target}
          label={t(`tools.target.${tool}`)}
          placeholder={t(`tools.example.${tool}`)}
          classNames={{ input: 'mono' }}
          value={form.target}
          onChange={(event) => put({ target: event.currentTarget.value.trim() })}
          error={faults.target}
          autoComplete="off"
          spellCheck={false}
        />
        {tool === 'dig' && (
          <>
            <Select
              label={t('tools.type')}
              data={[...recordTypes]}
              value={form.type}
              onChange={(value) => put({ type: (value ?? 'A') as ToolForm['type'] })}
              allowDeselect={false}
              error={faults.type}
            />
            <TextInput
              label={t('tools.server')}
              placeholder={t('tools.ownResolver')}
              classNames={{ input: 'mono' }}
              value={form.server}
              onChange={(event) => put({ server: event.currentTarget.value.trim() })}
              error={faults.server}
            />
          </>
        )}
        {tool === 'tcp' && (
          <Port label={t('tools.port')} value={form.port} onChange={(port) => put({ port })} error={faults.port} />
        )}
        <RunOrStop
          running={busy}
          run={t('tools.run')}
          stop={t('tools.stop')}
          ready={form.target !== ''}
          onStop={onStop}
        />
      </div>
    </form>
  )
}
