import { Button, NumberInput, Progress, Select, TextInput } from '@mantine/core'
import { IconDownload } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { type FormEvent, useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { download, http, unwrap } from '../../api/client'
import { toFault } from '../../api/fault'
import { live } from '../../api/live'
import { Choice } from '../../kit/form/Choice'
import { Quantity } from '../../kit/form/Quantity'
import { Panel } from '../../kit/page/Page'
import { FaultNotice } from '../../kit/state/Loaded'
import { Notice } from '../../kit/state/Notice'
import { bytes, count } from '../../kit/text/format'
import { AdminsOnly } from './AdminsOnly'
import { type CaptureForm, captureBody, fileName, newCapture, packetsIn } from './capture-logic'
import classes from './Diagnostics.module.css'
import { Port, RunOrStop } from './fields'

export default function Capture() {
  return (
    <AdminsOnly>
      <Captures />
    </AdminsOnly>
  )
}

interface Kept {
  url: string
  name: string
  size: number
  packets: number
}

type Phase = { kind: 'idle' } | { kind: 'running'; until: number; size: number } | { kind: 'done'; file: Kept | null }

/**
 * Captures packets of an interface to a file for Wireshark. It ends at a time, size or packet limit, or when stopped.
 */
function Captures() {
  const { t } = useTranslation('diagnostics')
  const [form, setForm] = useState(newCapture)
  const [phase, setPhase] = useState<Phase>({ kind: 'idle' })
  const [fault, setFault] = useState<unknown>(null)
  const running = useRef<AbortController | null>(null)
  useEffect(() => () => running.current?.abort(), [])
  // Release the file when it is no longer shown.
  const url = phase.kind === 'done' ? phase.file?.url : undefined
  useEffect(() => () => (url ? URL.revokeObjectURL(url) : undefined), [url])

  const start = async () => {
    const control = new AbortController()
    running.current = control
    setFault(null)
    setPhase({ kind: 'running', until: Date.now() + form.seconds * 1000, size: 0 })
    const pieces: Uint8Array<ArrayBuffer>[] = []
    const begun = new Date()
    try {
      await download('/diagnostics/capture', captureBody(form), control.signal, (piece) => {
        pieces.push(piece)
        setPhase((old) => (old.kind === 'running' ? { ...old, size: old.size + piece.length } : old))
      })
    } catch (cause) {
      // Stopping is not an error: keep what has arrived.
      if (!control.signal.aborted) {
        setFault(cause)
        setPhase({ kind: 'idle' })
        return
      }
    }
    const blob = new Blob(pieces, { type: 'application/vnd.tcpdump.pcap' })
    const packets = packetsIn(new Uint8Array(await blob.arrayBuffer()))
    const file = { url: URL.createObjectURL(blob), name: fileName(form.interface, begun), size: blob.size, packets }
    setPhase({ kind: 'done', file: packets > 0 ? file : null })
  }
  const faults = fault ? toFault(fault).fields : {}
  return (
    <>
      <Panel title={t('capture.title')}>
        <CaptureFields
          form={form}
          faults={faults}
          running={phase.kind === 'running'}
          onChange={setForm}
          onStart={() => void start()}
          onStop={() => running.current?.abort()}
        />
      </Panel>
      {fault !== null && Object.keys(faults).length === 0 && <FaultNotice fault={fault} />}
      {phase.kind === 'running' && <Countdown until={phase.until} seconds={form.seconds} size={phase.size} />}
      {phase.kind === 'done' && !phase.file && <Notice tone="warn">{t('capture.nothing')}</Notice>}
      {phase.kind === 'done' && phase.file && (
        <Notice
          tone="live"
          title={t('capture.done', {
            count: phase.file.packets,
            number: count(phase.file.packets),
            size: bytes(phase.file.size),
          })}
          action={
            <Button
              component="a"
              href={phase.file.url}
              download={phase.file.name}
              leftSection={<IconDownload size={16} />}
            >
              {t('capture.download')}
            </Button>
          }
        >
          <span className="mono">{phase.file.name}</span>
        </Notice>
      )}
    </>
  )
}

function Countdown({ until, seconds, size }: { until: number; seconds: number; size: number }) {
  const { t } = useTranslation('diagnostics')
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 250)
    return () => clearInterval(timer)
  }, [])
  const left = Math.max(0, Math.ceil((until - now) / 1000))
  return (
    <Panel>
      <div className={classes.countdown} role="timer" aria-label={t('capture.left', { count: left })}>
        <strong>{t('capture.left', { count: left })}</strong>
        <span>{t('capture.soFar', { size: bytes(size) })}</span>
        <Progress
          value={(100 * (seconds - left)) / seconds}
          aria-label={t('capture.progress')}
          transitionDuration={250}
        />
      </div>
    </Panel>
  )
}

interface CaptureFieldsProps {
  form: CaptureForm
  faults: Record<string, string>
  running: boolean
  onChange: (form: CaptureForm) => void
  onStart: () => void
  onStop: () => void
}

function CaptureFields({ form, faults, running, onChange, onStart, onStop }: CaptureFieldsProps) {
  const { t } = useTranslation('diagnostics')
  const links = useQuery({
    queryKey: ['system', 'interfaces'],
    queryFn: async () => live(await unwrap(http.GET('/system/interfaces'))),
  })
  const put = (part: Partial<CaptureForm>) => onChange({ ...form, ...part })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (!running) onStart()
  }
  const ported = form.protocol === '' || form.protocol === 'tcp' || form.protocol === 'udp'
  return (
    <form onSubmit={submit} className={classes.form}>
      <p className="soft">{t('capture.help')}</p>
      <div className={classes.fields}>
        <Choice
          label={t('capture.interface')}
          data={(links.data ?? []).map(({ ifname }) => ({ value: ifname, label: ifname }))}
          value={form.interface || null}
          onChange={(value) => put({ interface: value ?? '' })}
          error={faults.interface}
        />
        <Select
          label={t('capture.protocol')}
          data={['tcp', 'udp', 'icmp', 'icmp6', 'arp']}
          value={form.protocol || null}
          onChange={(value) => put({ protocol: (value ?? '') as CaptureForm['protocol'] })}
          placeholder={t('capture.any')}
          clearable
          clearButtonProps={{ 'aria-label': t('capture.clear') }}
          error={faults.protocol}
        />
        <TextInput
          label={t('capture.host')}
          placeholder={t('capture.any')}
          classNames={{ input: 'mono' }}
          value={form.host}
          onChange={(event) => put({ host: event.currentTarget.value.trim() })}
          error={faults.host}
        />
        {ported && (
          <Port
            label={t('capture.port')}
            placeholder={t('capture.any')}
            value={form.port}
            onChange={(port) => put({ port })}
            error={faults.port}
          />
        )}
        <NumberInput
          label={t('capture.seconds')}
          value={form.seconds}
          onChange={(value) => put({ seconds: Number(value) || 1 })}
          min={1}
          max={300}
          allowDecimal={false}
          error={faults.seconds}
        />
        <NumberInput
          label={t('capture.packets')}
          value={form.packets}
          onChange={(value) => put({ packets: Number(value) || 1 })}
          min={1}
          max={1_000_000}
          allowDecimal={false}
          thousandSeparator=","
          hideControls
          error={faults.packets}
        />
        <Quantity
          label={t('capture.bytes')}
          scale="size"
          value={form.bytes}
          onChange={(value) => put({ bytes: value ?? newCapture.bytes })}
          min={1024}
          max={100 * 1024 ** 2}
          error={faults.bytes}
        />
        <RunOrStop
          running={running}
          run={t('capture.start')}
          stop={t('capture.stop')}
          ready={form.interface !== ''}
          onStop={onStop}
        />
      </div>
    </form>
  )
}
