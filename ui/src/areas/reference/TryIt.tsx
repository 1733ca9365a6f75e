import { Button, TextInput } from '@mantine/core'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { confirm } from '../../kit/change/confirm'
import { CodeText } from '../../kit/form/CodeText'
import { CopyText } from '../../kit/page/CopyText'
import { Fold } from '../../kit/page/Fold'
import { Notice } from '../../kit/state/Notice'
import { Badge } from '../../kit/state/StateBadge'
import { type ApiCall, addressOf, curlOf, type Document, exampleOf } from './document'
import classes from './Reference.module.css'

interface Answered {
  status: number
  milliseconds: number
  headers: [name: string, value: string][]
  body: string
}

/** How long an answer may take, and how much of it is shown. */
const patience = 60_000
const shownMost = 200_000

/** The response headers to show. */
const telling = [
  'content-type',
  'etag',
  'location',
  'retry-after',
  'gateway-apply',
  'gateway-change-set',
  'x-request-id',
]

async function send(method: string, address: string, body: string): Promise<Answered> {
  const begun = performance.now()
  const response = await fetch(address, {
    method,
    credentials: 'same-origin',
    signal: AbortSignal.timeout(patience),
    ...(body && { body, headers: { 'Content-Type': 'application/json' } }),
  })
  return {
    status: response.status,
    milliseconds: Math.round(performance.now() - begun),
    headers: telling.flatMap((name) => {
      const value = response.headers.get(name)
      return value === null ? [] : [[name, value] as [string, string]]
    }),
    body: pretty(await response.text()).slice(0, shownMost),
  }
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

/** Makes the call with the user's session. A call that changes something asks first. */
export function TryIt({ call, document }: { call: ApiCall; document: Document }) {
  const { t } = useTranslation('reference')
  const [values, setValues] = useState<Record<string, string>>({})
  const [body, setBody] = useState(() =>
    call.body ? JSON.stringify(exampleOf(document, call.body.schema, true), null, 2) : '',
  )
  const [busy, setBusy] = useState(false)
  const [answered, setAnswered] = useState<Answered | null>(null)
  const [failure, setFailure] = useState('')
  const kind = call.stream ? 'stream' : call.uploads.length > 0 ? 'upload' : call.file ? 'file' : null
  if (kind) return <Notice tone="off">{t(`try.${kind}`)}</Notice>
  const address = addressOf(call, values)

  const run = async () => {
    if (!address) return
    const changes = call.method !== 'GET'
    const agreed =
      !changes ||
      (await confirm({
        title: t('try.askTitle'),
        text: t('try.askText', { call: `${call.method} ${address}` }),
        verb: t('try.send'),
        danger: true,
      }))
    if (!agreed) return
    setBusy(true)
    setFailure('')
    setAnswered(null)
    try {
      setAnswered(await send(call.method, address, body.trim()))
    } catch {
      setFailure(t('try.failed'))
    } finally {
      setBusy(false)
    }
  }

  return (
    <section>
      <h3>{t('try.title')}</h3>
      <form
        className={classes.form}
        onSubmit={(event) => {
          event.preventDefault()
          void run()
        }}
      >
        {call.parameters
          .filter((one) => one.in !== 'header')
          .map(({ name, required }) => (
            <TextInput
              key={name}
              label={name}
              required={required}
              classNames={{ input: 'mono' }}
              value={values[name] ?? ''}
              onChange={(event) => setValues({ ...values, [name]: event.currentTarget.value.trim() })}
            />
          ))}
        {call.body && (
          <CodeText label={t('body')} value={body} onChange={(event) => setBody(event.currentTarget.value)} />
        )}
        <div>
          <Button type="submit" loading={busy} disabled={!address} color={call.method === 'GET' ? undefined : 'red.8'}>
            {t('try.send')}
          </Button>
        </div>
      </form>
      {failure && <Notice tone="bad">{failure}</Notice>}
      {answered && <Answer answered={answered} />}
      {address && (
        <Fold title={t('try.curl')}>
          <CopyText label={t('try.curl')} text={curlOf(call, address, body.trim(), location.origin)} />
        </Fold>
      )}
    </section>
  )
}

function Answer({ answered: { status, milliseconds, headers, body } }: { answered: Answered }) {
  const { t } = useTranslation('reference')
  return (
    <section className={classes.answer} aria-label={t('try.answer')}>
      <p className={classes.line}>
        <Badge tone={status < 300 ? 'live' : status < 500 ? 'warn' : 'bad'}>{status}</Badge>
        <span className="soft">{t('try.took', { milliseconds })}</span>
      </p>
      <dl className={classes.headers}>
        {headers.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd className="mono">{value}</dd>
          </div>
        ))}
      </dl>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard. */}
      <pre className="mono" tabIndex={0}>
        {body}
      </pre>
    </section>
  )
}
